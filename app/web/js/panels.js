/** What is known of the person, what the agent can do, the key, and the compactions of a thread. */

import { api, apiKey, setApiKey } from "./api.js";
import { openDialog } from "./dialog.js";
import { h, button, iconButton } from "./dom.js";
import { number, short, t, when } from "./i18n.js";
import { explain } from "./problems.js";

/** A dialog whose content is loaded; a failure is shown in it. */
function loaded(title, load, options) {
  const place = h("div", { "aria-busy": "true" }, t("loading"));
  const refresh = async () => {
    try {
      place.replaceChildren(...[await load(refresh)].flat());
    } catch (error) {
      place.replaceChildren(h("p", { class: "failure", role: "alert" }, explain(error)));
    }
    place.removeAttribute("aria-busy");
  };
  const node = openDialog(title, () => place, options);
  refresh();
  return node;
}

export function openMemory() {
  loaded(t("memory"), async (refresh) => {
    const { data } = await api.get("memory");
    const rows = data.map((fact) => factRow(fact, refresh));
    return [h("p", { class: "faint" }, t("memoryText")), rows.length ? h("ul", { class: "facts" }, rows) : h("p", {}, t("noFacts"))];
  });
}

function factRow(fact, refresh) {
  const field = h("input", { value: fact.text, "aria-label": t("fact") });
  const problem = h("p", { class: "failure", role: "alert", hidden: true });
  const attempt = async (call) => {
    try {
      await call();
      await refresh();
    } catch (error) {
      problem.textContent = explain(error);
      problem.hidden = false;
    }
  };
  const key = encodeURIComponent(fact.key);
  return h(
    "li",
    {},
    h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          attempt(() => api.put(`memory/${key}`, { text: field.value }));
        },
      },
      field,
      h("button", { type: "submit", class: "quiet" }, t("save")),
      iconButton("trash", t("delete"), { onclick: () => attempt(() => api.delete(`memory/${key}`)) }),
    ),
    problem,
  );
}

export function openSkills() {
  loaded(t("skills"), async () => {
    const { data } = await api.get("skills");
    if (!data.length) return h("p", {}, t("noSkills"));
    return [h("p", { class: "faint" }, t("skillsText")), h("dl", { class: "skills" }, data.map((skill) => [h("dt", {}, h("code", {}, `/${skill.name}`)), h("dd", {}, skill.error ? h("span", { class: "failure" }, skill.error) : skill.description)]))];
  });
}

export function openKey({ changed }) {
  openDialog(t("key"), (close) => {
    const field = h("input", { type: "password", value: apiKey(), autocomplete: "off", "aria-label": t("key"), autofocus: true });
    return h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          setApiKey(field.value.trim());
          close();
          changed();
        },
      },
      h("p", {}, t("keyText")),
      field,
      h("p", { class: "deeds" }, button(t("cancel"), { class: "quiet", onclick: close }), h("button", { type: "submit", class: "primary" }, t("save"))),
    );
  });
}

/** All compactions of a thread, with what can be taken back or done again. `deeds`: `undo(record)`, `redo(record)`. */
export function openCompactions(threadId, deeds) {
  const node = loaded(
    t("compactions"),
    async () => {
      const { data } = await api.get(`threads/${threadId}/compactions?limit=50`);
      if (!data.length) return h("p", {}, t("noCompactions"));
      return h("table", { class: "compactions" }, h("thead", {}, h("tr", {}, ["fact.when", "fact.kind", "fact.status", "fact.messages", "fact.tokens", ""].map((key) => h("th", { scope: "col" }, key ? t(key) : h("span", { class: "sr" }, t("actions")))))), h("tbody", {}, data.map((record) => compactionRow(record, deeds, () => node.close()))));
    },
    { wide: true },
  );
}

function compactionRow(record, deeds, close) {
  const deed = ["undo", "redo"].includes(record.kind) ? null : record.status === "undone" ? [t("redo"), deeds.redo] : record.status === "committed" ? [t("undo"), deeds.undo] : null;
  const problem = record.error ?? (record.reason ? t(`reason.${record.reason}`) : "");
  return h(
    "tr",
    {},
    h("td", {}, when(record.created_at)),
    h("td", {}, t(`kind.${record.kind}`)),
    h("td", { title: problem }, t(`record.${record.status}`)),
    h("td", {}, record.removed_message_count ? number(record.removed_message_count) : "–"),
    h("td", {}, `${short(record.tokens_before)} → ${short(record.tokens_after)}`),
    h("td", {}, deed ? button(deed[0], { class: "quiet", onclick: () => (close(), deed[1](record)) }) : null),
  );
}


/** Finding what was said in a thread, live and archived. */

import { api } from "./api.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";
import { explain } from "./problems.js";

const PAUSE = 250; // ms after the last key

export function openSearch(threadId, { jump }) {
  const results = h("ol", { class: "results", "aria-live": "polite" });
  let timer = null;
  let newest = 0;
  openDialog(t("searchThread"), (close) => {
    const field = h("input", { type: "search", placeholder: t("searchHint"), "aria-label": t("searchThread"), autofocus: true, oninput: () => (clearTimeout(timer), (timer = setTimeout(look, PAUSE))) });

    async function look() {
      const query = field.value.trim();
      const mine = ++newest;
      if (!query) return results.replaceChildren();
      try {
        const { data } = await api.get(`threads/${threadId}/messages/search?${new URLSearchParams({ q: query, limit: 20 })}`);
        if (mine === newest) results.replaceChildren(...(data.length ? data.map((hit) => row(hit, close)) : [h("li", { class: "faint" }, t("nothingFound"))]));
      } catch (error) {
        if (mine === newest) results.replaceChildren(h("li", { class: "failure" }, explain(error)));
      }
    }

    function row(hit, closeDialog) {
      const go = () => {
        closeDialog();
        jump(hit.seq);
      };
      return h("li", {}, h("button", { type: "button", class: "hit", onclick: go }, h("span", { class: "who" }, t(`role.${hit.message.type}`), hit.archived ? ` · ${t("archived")}` : ""), h("span", { class: "said" }, hit.snippet)));
    }

    return [field, results];
  });
}

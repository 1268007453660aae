/** A question that the run waits for, answered where it stands. */

import { h, button, isComposing } from "./dom.js";
import { t } from "./i18n.js";

/** `interrupt` is `{id, value}`; a clarification carries its question and options, anything else is shown as it is. */
export function interruptNode(interrupt, deeds) {
  const asked = typeof interrupt.value === "object" && interrupt.value?.question ? interrupt.value : null;
  const field = h("textarea", { rows: 2, "aria-label": t("yourAnswer"), placeholder: t("yourAnswer") });
  const answer = (value) => deeds.answer(interrupt, value);
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        if (field.value.trim()) answer(field.value.trim());
      },
    },
    field,
    h("button", { type: "submit", class: "primary" }, t("answer")),
  );
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !isComposing(event)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  const text = asked ? asked.question : typeof interrupt.value === "string" ? interrupt.value : JSON.stringify(interrupt.value, null, 2);
  const options = (asked?.options ?? []).map((option) => button(option.label ?? option.value, { class: "choice", onclick: () => answer(option.value ?? option.label) }));
  return h("section", { class: "question", "aria-label": t("question") }, h("h3", {}, t("question")), h("p", { class: "text plain" }, text), options.length ? h("div", { class: "choices" }, options) : null, form);
}

/** A dialog of the browser: focus stays inside, Escape closes it, focus goes back where it was. */

import { h, iconButton } from "./dom.js";
import { t } from "./i18n.js";

/** Opens a dialog that is removed when it closes. `content` gets `close`. Returns the element. */
export function openDialog(title, content, { wide = false, onclose = null } = {}) {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const node = h("dialog", { class: wide ? "wide" : "", "aria-labelledby": id });
  const close = () => node.close();
  node.append(h("header", {}, h("h2", { id }, title), iconButton("close", t("close"), { onclick: close })), h("div", { class: "dialog-body" }, content(close)));
  node.addEventListener("close", () => {
    node.remove();
    onclose?.();
  });
  node.addEventListener("click", (event) => {
    if (event.target === node) close();
  });
  document.body.append(node);
  node.showModal();
  return node;
}

/** Asks before something is done; resolves with true or false. */
export function confirmed(title, text, deed) {
  return new Promise((resolve) => {
    let answer = false;
    openDialog(
      title,
      (close) => [
        h("p", {}, text),
        h(
          "p",
          { class: "deeds" },
          h("button", { type: "button", class: "quiet", onclick: close }, t("cancel")),
          h("button", { type: "button", class: "danger", onclick: () => ((answer = true), close()) }, deed),
        ),
      ],
      { onclose: () => resolve(answer) },
    );
  });
}

/** Asks for one line of text; resolves with it, or null. */
export function asked(title, value, deed) {
  return new Promise((resolve) => {
    let answer = null;
    openDialog(
      title,
      (close) => {
        const field = h("input", { value, "aria-label": title, maxlength: 200, autofocus: true });
        return h(
          "form",
          {
            onsubmit: (event) => {
              event.preventDefault();
              answer = field.value.trim() || null;
              close();
            },
          },
          field,
          h("p", { class: "deeds" }, h("button", { type: "button", class: "quiet", onclick: close }, t("cancel")), h("button", { type: "submit", class: "primary" }, deed)),
        );
      },
      { onclose: () => resolve(answer) },
    );
  });
}

/** The line above the conversation: its title, what can be done with it, and the way to the list of threads. */

import { byId, button, h, iconButton } from "./dom.js";
import { t } from "./i18n.js";

export class Head {
  /** `gauge`: the node that shows how full the context is; `deeds`: compact, history, search. */
  constructor(gauge, deeds) {
    this.title = h("h2", { class: "title" });
    this.compactButton = button(t("compact"), { class: "quiet", onclick: () => deeds.compact() });
    this.tools = h("div", { class: "tools" }, gauge, this.compactButton, iconButton("undo", t("compactions"), { onclick: () => deeds.history() }), iconButton("search", t("searchThread"), { onclick: () => deeds.search() }));
    this.menu = iconButton("menu", t("threads"), { class: "menu", "aria-controls": "sidebar", "aria-expanded": "false", onclick: () => this.toggleSidebar(true) });
    byId("head").append(this.menu, this.title, this.tools);
    byId("shade").addEventListener("click", () => this.toggleSidebar(false));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.toggleSidebar(false);
    });
  }

  /** Without a thread there is nothing to do with it. */
  set toolsHidden(hidden) {
    this.tools.hidden = hidden;
  }

  /** While a run is under way nothing is compacted by hand. */
  set busy(busy) {
    this.compactButton.disabled = busy;
  }

  /** Shows the title here and in the name of the window; empty: no thread is open. */
  showTitle(title) {
    this.title.textContent = title;
    document.title = title ? `${title} · Threadkeep` : "Threadkeep";
  }

  toggleSidebar(open) {
    const wasOpen = document.body.classList.contains("has-sidebar");
    document.body.classList.toggle("has-sidebar", open);
    byId("shade").hidden = !open;
    this.menu.setAttribute("aria-expanded", String(open));
    if (open) byId("sidebar").querySelector("input").focus();
    else if (wasOpen && byId("sidebar").contains(document.activeElement)) this.menu.focus();
  }
}

/** What went wrong, in plain words, and what to do about it. */

import { h, iconButton, button, byId } from "./dom.js";
import { t } from "./i18n.js";

const KNOWN = new Set(["thread_busy", "thread_interrupted", "compaction_disabled", "summary_generation_failed", "summary_timeout", "draft_stale", "draft_expired", "would_overflow", "pin_budget_exceeded", "rate_limited", "unreachable", "unauthorized", "not_newest_compaction", "not_redoable", "budget_exhausted", "draft_applied", "not_a_draft", "message_pinned", "message_archived", "database_error"]);

/** A sentence for a person; what the service said itself comes behind it. */
export function explain(error) {
  const said = error.message || String(error);
  if (error.code === "unreachable") return t("problem.unreachable");
  if (KNOWN.has(error.code)) return `${t(`problem.${error.code}`)} (${said})`;
  if (error.status >= 500) return `${t("problem.service")} (${said})`;
  return said;
}

/** A short notice at the edge that goes away by itself, unless it offers something to do. */
export function toast(text, { failure = false, deed = null } = {}) {
  const node = h("div", { class: `toast ${failure ? "failure" : ""}`, role: failure ? "alert" : null }, h("span", {}, text));
  if (deed) {
    node.append(
      button(deed.label, {
        class: "link",
        onclick: () => {
          node.remove();
          deed.run();
        },
      }),
    );
  }
  node.append(iconButton("close", t("close"), { onclick: () => node.remove() }));
  byId("toasts").append(node);
  setTimeout(() => node.remove(), failure || deed ? 15_000 : 5_000);
}

export const failed = (error) => toast(explain(error), { failure: true });

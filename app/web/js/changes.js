/** What a person changes of the context of the open thread: compacts it, takes that back, pins messages. */

import { api } from "./api.js";
import { CompactDialog } from "./compact.js";
import { confirmed } from "./dialog.js";
import { short, t } from "./i18n.js";
import { explain, failed, toast } from "./problems.js";

export class ContextChanges {
  /** `page`: the parts of the page, and which thread is open. */
  constructor(page) {
    this.page = page;
  }

  compact(focus) {
    if (!this.page.threadId) return toast(t("reason.not_enough_messages"));
    new CompactDialog(this.page.threadId, {
      focus,
      model: this.page.composer.model,
      done: (answer) => {
        toast(t("compacted", { count: answer.removed_message_count, before: short(answer.total_tokens), after: short(answer.tokens_after) }), { deed: { label: t("undo"), run: () => this.undo(answer) } });
        this.page.conversation.refresh().then(() => this.page.conversation.toEnd(), failed);
        this.page.gauge.look();
      },
    });
  }

  async undo(record, force = false) {
    try {
      const answer = await api.post(`threads/${this.page.threadId}/compactions/${record.target_id ?? record.compaction_id}/undo`, { force });
      toast(t("undone", { count: answer.restored_message_count ?? "" }), { deed: { label: t("redo"), run: () => this.redo(record) } });
      await this.afterChange();
    } catch (error) {
      if (error.code !== "would_overflow") return failed(error);
      if (await confirmed(t("undo"), explain(error), t("undoAnyway"))) await this.undo(record, true);
    }
  }

  async redo(record) {
    try {
      await api.post(`threads/${this.page.threadId}/compactions/${record.target_id ?? record.compaction_id}/redo`, {});
      toast(t("redone"));
      await this.afterChange();
    } catch (error) {
      failed(error);
    }
  }

  async afterChange() {
    await this.page.conversation.refresh();
    this.page.gauge.look();
  }

  async pin(entry) {
    const path = `threads/${this.page.threadId}/messages/${encodeURIComponent(entry.message.id)}/pin`;
    try {
      if (entry.pinned) await api.delete(path);
      else await api.put(path);
      await this.page.conversation.refresh();
    } catch (error) {
      failed(error);
    }
  }
}

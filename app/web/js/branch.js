/** Where a branch begins: the checkpoint before a message of the person was said. */

import { ApiError, api } from "./api.js";
import { keyOf } from "./transcript.js";
import { t } from "./i18n.js";

const STEP = 100;
const FIELDS = ["checkpoint", "parent_checkpoint", "metadata"];

/** The checkpoint to start the branch from; null: from before the thread's first one. Rejects with ApiError. */
export async function checkpointBefore(threadId, entry) {
  const first = entry.run_id ? await firstOfRun(threadId, entry.run_id) : await firstWith(threadId, entry.key);
  if (!first) throw new ApiError(404, "not_found", t("noBranch"));
  return first.parent_checkpoint?.checkpoint_id ?? null;
}

/** The checkpoint that took the run's input. */
async function firstOfRun(threadId, runId) {
  let oldest = null;
  for (let before = null; ; ) {
    const page = await api.post(`threads/${threadId}/history`, { limit: STEP, before, metadata: { run_id: runId }, select: FIELDS });
    oldest = page.at(-1) ?? oldest;
    if (page.length < STEP) return oldest;
    before = oldest.checkpoint.checkpoint_id;
  }
}

/** The oldest checkpoint that holds the message, of those of the inputs; for messages whose run is not known. */
async function firstWith(threadId, key) {
  let found = null;
  for (let before = null; ; ) {
    const page = await api.post(`threads/${threadId}/history`, { limit: 10, before, select: [...FIELDS, "values.messages"] });
    for (const state of page) {
      if ((state.values?.messages ?? []).some((message) => keyOf(message.id) === key)) found = state;
      else if (found) return found;
    }
    if (page.length < 10) return found;
    before = page.at(-1).checkpoint.checkpoint_id;
  }
}

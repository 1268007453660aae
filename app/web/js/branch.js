/** Where a branch begins: the checkpoint before a message of the person was said. */

import { ApiError, api } from "./api.js";
import { keyOf } from "./transcript.js";
import { t } from "./i18n.js";

const STEP = 100;
const FIELDS = ["checkpoint", "parent_checkpoint", "metadata"];

/** The id of the checkpoint to start the branch from. Rejects with ApiError. */
export async function checkpointBefore(threadId, entry) {
  const runId = entry.run_id ?? (await runThatSaid(threadId, entry.key));
  const first = runId && (await firstOfRun(threadId, runId));
  if (!first) throw new ApiError(404, "not_found", t("noBranch"));
  // The first run of a thread has none before it: its own first checkpoint holds no message yet.
  return (first.parent_checkpoint ?? first.checkpoint).checkpoint_id;
}

/** The run whose input held the message. */
async function runThatSaid(threadId, key) {
  for (let offset = 0; ; offset += STEP) {
    const runs = await api.get(`threads/${threadId}/runs?limit=${STEP}&offset=${offset}&select=run_id&select=kwargs`);
    const found = runs.find((run) => [run.kwargs?.input?.messages ?? []].flat().some((message) => keyOf(message.id) === key));
    if (found || runs.length < STEP) return found?.run_id ?? null;
  }
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

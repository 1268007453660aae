"""What a compaction by hand would do now: no model is asked, nothing is written (``dry_run: "plan"``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.compaction.preview import Preview, Verdict, preview
from app.services.compaction.compactor import ThreadCompactor
from app.services.compaction.manual import CompactRequest, ManualCompactions


class PreviewService:
    """Plans on the thread's newest state as it stands: it waits for nobody, and a run may change it meanwhile."""

    def __init__(self, manual: ManualCompactions, compactor: ThreadCompactor) -> None:
        self._manual = manual
        self._compactor = compactor

    async def plan(self, owner: str, thread_id: str, request: CompactRequest) -> dict[str, Any]:
        """Raises NotFound, CompactionDisabled, InvalidInput (model, agent)."""
        target = await self._manual.target(owner, thread_id, request)
        job = self._manual.job(target, request, await self._manual.head(target))
        policy, counter = self._compactor.policy_for(job), self._compactor.counter(job.model_name)
        context = replace(job.context, pinned=await self._compactor.pinned(job))
        return {"thread_id": thread_id, **_shown(preview(context, policy, counter, force=job.force))}


def _shown(found: Preview) -> dict[str, Any]:
    return {
        "dry_run": "plan",
        "would_compact": found.reason is None,
        "reason": found.reason,
        "tokens_before": found.tokens_before,
        "tokens_after_estimate": found.tokens_after_estimate,
        "remove": _listed(found.remove),
        "keep": _listed(found.keep),
    }


def _listed(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    return [{"message_id": verdict.message_id, "why": verdict.why} for verdict in verdicts]

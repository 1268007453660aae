"""Real conversations, compacted five times in a row; skipped where they are not at hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, messages_from_dict

from app.compaction.pipeline import compact
from app.compaction.reference import reference_of
from app.compaction.roles import is_tool_result, tool_call_ids
from app.compaction.tokens import TokenCounter
from app.compaction.types import Candidate, Compaction, CompactionPolicy, Context, ContextSize, Skipped
from tests.compaction.build import ids
from tests.support.models import GOOD_SUMMARY, ScriptedModel

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "transcripts"
FILES = sorted(FOLDER.glob("*.json"))
COUNTER = TokenCounter()
ROUNDS = 5
MIN_MESSAGES = 24

pytestmark = pytest.mark.skipif(not FILES, reason="the transcripts are not at hand")


def messages_of(path: Path) -> list[BaseMessage]:
    raw = json.loads(path.read_text())["messages"]
    loaded = messages_from_dict([{"type": message["type"], "data": message} for message in raw])
    return [m.model_copy(update={"id": f"{n}-{m.id}"}) for n, m in enumerate(loaded)]


def orphans(messages: Iterable[BaseMessage]) -> list[str]:
    called: set[str] = set()
    found = []
    for message in messages:
        called.update(tool_call_ids(message))
        if is_tool_result(message) and message.tool_call_id not in called:
            found.append(message.tool_call_id)
    return found


def portions(messages: Sequence[BaseMessage]) -> list[Sequence[BaseMessage]]:
    size = len(messages) // ROUNDS
    return [messages[n * size : (n + 1) * size if n < ROUNDS - 1 else None] for n in range(ROUNDS)]


def a_summary(round_: int) -> Any:
    """Unlike its predecessor, so that the next round shows which one it was given."""
    return f"{GOOD_SUMMARY}\n## Artifacts\n- round {round_}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem[-40:])
async def test_five_compactions_in_a_row_keep_every_promise(path: Path) -> None:
    everything = messages_of(path)
    if len(everything) < MIN_MESSAGES:
        pytest.skip("not long enough for five compactions")
    policy = CompactionPolicy(
        keep=ContextSize("messages", 3), trim_tokens_to_summarize=15_564, min_gain_fraction=0.0001
    )
    context, unseen = Context(messages=[]), set(ids(everything))
    orphaned_before = set(orphans(everything))
    for round_, portion in enumerate(portions(everything)):
        context = Context(
            messages=[*context.messages, *portion],
            summary=context.summary,
            usage_valid_after=context.usage_valid_after,
        )
        model = ScriptedModel.saying(a_summary(round_))
        outcome = await compact(
            context, policy, COUNTER, [Candidate("m", lambda model=model: model)], force=True
        )
        if isinstance(outcome, Skipped):
            assert outcome.reason in ("nothing_to_remove", "insufficient_gain", "not_enough_messages")
            continue
        context = check(context, outcome, model, policy, orphaned_before)
        unseen -= set(ids([*outcome.removed, *outcome.dropped]))
    assert unseen == set(ids(context.messages))


def check(
    before: Context,
    done: Compaction,
    model: ScriptedModel,
    policy: CompactionPolicy,
    orphaned_before: set[str],
) -> Context:
    """All invariants and the coverage of one compaction; the context after it."""
    parts = (done.removed, done.kept, done.dropped)
    assert sorted(ids(m for part in parts for m in part)) == sorted(ids(before.messages))
    assert set(orphans(done.kept)) | set(orphans(done.removed)) <= orphaned_before
    assert done.tokens_after < done.tokens_before
    assert len(model.prompts) <= policy.max_summary_calls
    assert done.coverage == 1.0 or len(model.prompts) == policy.max_summary_calls
    if before.summary:
        assert before.summary in model.prompts[0]
    assert all(
        prompt.count("<new_messages>") == prompt.count("</new_messages>") == 1 for prompt in model.prompts
    )
    assert [m for m in before.messages if m.type == "system"] == [m for m in done.kept if m.type == "system"]
    return Context(messages=done.kept, summary=done.summary, usage_valid_after=done.kept[-1].id)


async def test_the_longest_transcript_is_read_far_beyond_the_references_quarter() -> None:
    longest = max((messages_of(path) for path in FILES), key=len)
    policy = CompactionPolicy(keep=ContextSize("messages", 10), trim_tokens_to_summarize=15_564)
    model = ScriptedModel.saying()
    done = await compact(
        Context(messages=longest), policy, COUNTER, [Candidate("m", lambda: model)], force=True
    )
    assert isinstance(done, Compaction)
    assert len(model.prompts) <= policy.max_summary_calls
    assert done.coverage > 0.25
    read = "\n".join(model.prompts)
    assert all(f"ref {reference_of(m.id)}" in read or str(m.text)[:50] in read for m in done.removed)

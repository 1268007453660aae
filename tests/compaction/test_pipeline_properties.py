"""Whatever the history, a whole compaction keeps its promises (rules C6, C7, D1, D2, E5, E7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, SystemMessage

from app.compaction.pipeline import compact
from app.compaction.tokens import TokenCounter
from app.compaction.types import Candidate, Compaction, CompactionKind, CompactionPolicy, Context, Skipped
from tests.compaction.build import ids
from tests.compaction.histories import histories, policies
from tests.support.models import GOOD_SUMMARY, ScriptedModel

COUNTER = TokenCounter()
SUMMARIES = st.sampled_from(
    [GOOD_SUMMARY, "## Intent\n" + "".join(f"- point {n}: {n * 7919}\n" for n in range(300))]
)
LONG = settings(deadline=None, max_examples=60)


@st.composite
def contexts(draw: Any) -> Context:
    return Context(
        messages=draw(histories(max_events=30)),
        summary=draw(st.sampled_from([None, "earlier", "earlier </existing_summary> & " * 200])),
        system=draw(st.sampled_from([None, SystemMessage("rules " * 40)])),
        window=draw(st.sampled_from([None, 2000, 100_000])),
    )


@st.composite
def limits(draw: Any) -> CompactionPolicy:
    return replace(
        draw(policies()),
        trim_tokens_to_summarize=draw(st.sampled_from([None, 300, 1500, 15_564])),
        max_summary_calls=draw(st.sampled_from([1, 2, 8])),
        max_summary_tokens=draw(st.sampled_from([100, 1500])),
        min_gain_fraction=draw(st.sampled_from([0.01, 0.1])),
    )


def run(context: Context, policy: CompactionPolicy, kind: CompactionKind, *models: ScriptedModel) -> Any:
    chain = [Candidate(f"m{n}", lambda model=model: model) for n, model in enumerate(models)]
    return asyncio.run(compact(context, policy, COUNTER, chain, kind=kind, force=True))


def after(context: Context, done: Compaction) -> Context:
    return replace(
        context,
        messages=done.kept,
        summary=done.summary,
        usage_valid_after=done.kept[-1].id if done.kept else None,
    )


def in_order(part: Sequence[BaseMessage], whole: Sequence[BaseMessage]) -> bool:
    places = {message.id: place for place, message in enumerate(whole)}
    return [places[m.id] for m in part] == sorted(places[m.id] for m in part)


@LONG
@given(contexts(), limits(), SUMMARIES)
def test_a_compaction_is_complete_in_order_and_smaller(
    context: Context, policy: CompactionPolicy, summary: str
) -> None:
    done = run(context, policy, "manual", ScriptedModel.saying(summary))
    if isinstance(done, Skipped):
        return
    parts = (done.removed, done.kept, done.dropped)
    assert sorted(ids(m for part in parts for m in part)) == sorted(ids(context.messages))
    assert all(in_order(part, context.messages) for part in parts)
    assert done.tokens_after < done.tokens_before
    assert COUNTER.text(done.summary) <= policy.max_summary_tokens


@LONG
@given(contexts(), limits())
def test_a_second_compaction_right_after_the_first_has_nothing_to_remove(
    context: Context, policy: CompactionPolicy
) -> None:
    model = ScriptedModel.saying()
    done = run(context, policy, "manual", model)
    assume(isinstance(done, Compaction))
    calls = len(model.prompts)
    again = run(after(context, done), policy, "manual", model)
    assert isinstance(again, Skipped)
    assert again.reason == "nothing_to_remove"
    assert len(model.prompts) == calls


@LONG
@given(contexts(), limits(), SUMMARIES)
def test_everything_removed_is_read_unless_the_call_limit_was_reached(
    context: Context, policy: CompactionPolicy, summary: str
) -> None:
    model = ScriptedModel.saying(summary)
    done = run(context, policy, "manual", model)
    assert len(model.prompts) <= policy.max_summary_calls
    if isinstance(done, Skipped):
        return
    assert done.coverage == 1.0 or len(model.prompts) == policy.max_summary_calls
    if done.coverage == 1.0:
        read = set("\n".join(model.prompts).split())
        texts = [m.content for m in done.removed if isinstance(m.content, str)]
        assert all(set(text.split()) <= read for text in texts if "<" not in text)


@LONG
@given(contexts(), limits(), SUMMARIES)
def test_each_prompt_holds_each_wrapper_tag_once_and_stays_within_its_limit(
    context: Context, policy: CompactionPolicy, summary: str
) -> None:
    model = ScriptedModel.saying(summary + "\n</existing_summary> <new_messages>")
    run(context, replace(policy, overflow_fallback="extractive"), "overflow", model)
    for prompt in model.prompts:
        assert len(re.findall(r"<\s*/?\s*new_messages", prompt, re.IGNORECASE)) == 2
        assert len(re.findall(r"<\s*/?\s*existing_summary", prompt, re.IGNORECASE)) in (0, 2)
        read = prompt.partition("<new_messages>")[2].partition("</new_messages>")[0]
        if policy.trim_tokens_to_summarize:
            assert COUNTER.text(read) <= policy.trim_tokens_to_summarize + 1


@LONG
@given(contexts(), limits())
def test_recovery_from_an_overflow_always_makes_the_request_smaller_or_says_it_cannot(
    context: Context, policy: CompactionPolicy
) -> None:
    done = run(context, policy, "overflow", ScriptedModel.saying(""))
    if isinstance(done, Compaction):
        assert done.extractive or done.model_name is None
        assert done.tokens_after < done.tokens_before

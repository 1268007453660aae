"""The pipeline that hook, route, recovery and bench call (rules C6, C7, E4, E5, E7, F2)."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from app.compaction.extractive import EXTRACTIVE_MARK
from app.compaction.pipeline import Plan, compact, plan
from app.compaction.tokens import TokenCounter
from app.compaction.types import Candidate, Compaction, CompactionPolicy, Context, Skipped
from app.errors import CompactionInvariantError, SummaryGenerationError, SummaryTimeout
from tests.compaction.build import ai, human, ids, policy, result, tool_round
from tests.support.models import GOOD_SUMMARY, Never, ScriptedModel, StatusError

COUNTER = TokenCounter()


def chat(turns: int = 20, words: int = 40) -> list[BaseMessage]:
    filler = " ".join(f"word{i}" for i in range(words))
    return [
        human(f"ask {n // 2} {filler}") if n % 2 == 0 else ai(f"say {n // 2} {filler}") for n in range(turns)
    ]


def candidates(*models: ScriptedModel) -> list[Candidate]:
    return [Candidate(f"m{n}", lambda model=model: model) for n, model in enumerate(models)]


async def run(
    messages: Sequence[BaseMessage],
    the_policy: CompactionPolicy,
    model: ScriptedModel | None = None,
    *,
    force: bool = False,
    kind: Any = "auto",
    **context: Any,
) -> Compaction | Skipped:
    return await compact(
        Context(messages=messages, **context),
        the_policy,
        COUNTER,
        candidates(*([model] if model else [])),
        force=force,
        kind=kind,
    )


def compacted(outcome: Compaction | Skipped) -> Compaction:
    assert isinstance(outcome, Compaction), outcome
    return outcome


def reason(outcome: Compaction | Skipped) -> str:
    assert isinstance(outcome, Skipped), outcome
    return outcome.reason


def after(compaction: Compaction) -> dict[str, Any]:
    """The thread as it stands after the commit."""
    return {
        "messages": list(compaction.kept),
        "summary": compaction.summary,
        "usage_valid_after": compaction.kept[-1].id,
    }


# What a compaction is


async def test_a_fired_trigger_replaces_the_old_messages_by_a_summary() -> None:
    messages, model = chat(), ScriptedModel.saying()
    done = compacted(await run(messages, policy(("messages", 20), keep=("messages", 6)), model))
    assert ids(done.removed) == ids(messages[:14])
    assert ids(done.kept) == ids(messages[14:])
    assert done.summary == GOOD_SUMMARY
    assert (done.model_name, done.coverage, done.extractive) == ("m0", 1.0, False)
    assert done.trigger == "messages >= 20"
    assert done.tokens_after < done.tokens_before


async def test_tokens_before_and_after_count_the_whole_request_with_one_counter() -> None:
    context = Context(
        messages=chat(), summary="old facts", system=SystemMessage("rules " * 50), tools=({"name": "read"},)
    )
    done = compacted(
        await compact(
            context, policy(keep=("messages", 6)), COUNTER, candidates(ScriptedModel.saying()), force=True
        )
    )
    assert done.tokens_before == COUNTER.breakdown(context).total
    left = replace(context, messages=done.kept, summary=done.summary)
    assert done.tokens_after == COUNTER.estimate(left).total


async def test_tokens_after_are_on_the_scale_of_a_providers_figure() -> None:
    messages = chat()
    reported = 2 * COUNTER.estimate(Context(messages=messages[:-1])).total
    usage = {"input_tokens": reported, "output_tokens": 0, "total_tokens": reported}
    messages[-1] = AIMessage(content="done", id="last", usage_metadata=usage)
    done = compacted(await run(messages, policy(keep=("messages", 6)), ScriptedModel.saying(), force=True))
    estimate = COUNTER.estimate(Context(messages=messages)).total
    left = COUNTER.estimate(Context(messages=done.kept, summary=done.summary)).total
    assert done.tokens_before > 1.9 * estimate
    assert done.tokens_after == pytest.approx(left * done.tokens_before / estimate, rel=0.01)


async def test_the_previous_summary_is_folded_in_and_replaced() -> None:
    model = ScriptedModel.saying()
    done = compacted(
        await run(chat(), policy(keep=("messages", 6)), model, force=True, summary="earlier facts")
    )
    assert "<existing_summary>\nearlier facts\n</existing_summary>" in model.prompts[0]
    assert done.summary == GOOD_SUMMARY


async def test_the_input_is_left_alone() -> None:
    messages = chat()
    before = [message.model_dump_json() for message in messages]
    await run(messages, policy(keep=("messages", 6)), ScriptedModel.saying(), force=True)
    assert [message.model_dump_json() for message in messages] == before


async def test_instructions_reach_the_model() -> None:
    model = ScriptedModel.saying()
    await compact(
        Context(messages=chat()),
        policy(keep=("messages", 6)),
        COUNTER,
        candidates(model),
        force=True,
        instructions="keep the SQL",
    )
    assert "keep the SQL" in model.prompts[0]


async def test_the_plan_is_announced_before_the_first_call() -> None:
    model, seen = ScriptedModel.saying(), []

    async def on_start(planned: Plan) -> None:
        seen.append((planned.tokens_before, len(model.prompts)))

    context = Context(messages=chat())
    await compact(
        context, policy(keep=("messages", 6)), COUNTER, candidates(model), force=True, on_start=on_start
    )
    assert seen == [(COUNTER.breakdown(context).total, 0)]


async def test_what_the_announcement_raises_goes_through_and_no_model_is_asked() -> None:
    model = ScriptedModel.saying()

    async def refuse(planned: Plan) -> None:
        raise LookupError("not now")

    with pytest.raises(LookupError):
        await compact(
            Context(messages=chat()),
            policy(keep=("messages", 6)),
            COUNTER,
            candidates(model),
            force=True,
            on_start=refuse,
        )
    assert model.prompts == []


# C6: nothing to do is a value with a reason, and costs no call


@pytest.mark.parametrize("trigger", [[], [("messages", 21)], [("tokens", 1_000_000)]])
async def test_below_the_trigger_nothing_happens(trigger: list[tuple[str, float]]) -> None:
    model = ScriptedModel.saying()
    outcome = await run(chat(), policy(*trigger, keep=("messages", 6)), model)
    assert reason(outcome) == "below_threshold"
    assert model.prompts == []
    assert isinstance(outcome, Skipped)
    assert outcome.tokens_before == COUNTER.breakdown(Context(messages=chat())).total


@pytest.mark.parametrize(
    ("messages", "keep"),
    [
        ([], ("messages", 10)),
        (chat(1), ("messages", 10)),
        (chat(8), ("messages", 10)),
        (chat(10), ("messages", 10)),
        (chat(8), ("tokens", 100_000)),
    ],
)
async def test_a_thread_within_keep_has_not_enough_messages(
    messages: list[BaseMessage], keep: tuple[str, float]
) -> None:
    model = ScriptedModel.saying()
    assert reason(await run(messages, policy(keep=keep), model, force=True)) == "not_enough_messages"
    assert model.prompts == []


async def test_a_thread_of_protected_messages_only_has_nothing_to_remove() -> None:
    messages = [SystemMessage(content=f"rule {n}", id=f"s{n}") for n in range(9)] + [human("hi"), ai("hello")]
    assert reason(await run(messages, policy(keep=("messages", 2)), ScriptedModel.saying(), force=True)) == (
        "nothing_to_remove"
    )


@pytest.mark.parametrize("keep", [("messages", 6), ("tokens", 500), ("messages", 1)])
@pytest.mark.parametrize("trigger", [[], [("tokens", 1000)], [("tokens", 300)], [("messages", 20)]])
async def test_a_second_forced_compaction_has_nothing_to_remove(
    keep: tuple[str, float], trigger: list[tuple[str, float]]
) -> None:
    messages, model = chat(), ScriptedModel.saying()
    the_policy = policy(*trigger, keep=keep)
    first = compacted(await run(messages, the_policy, model, force=True))
    calls = len(model.prompts)
    assert reason(await run(**after(first), the_policy=the_policy, force=True)) == "nothing_to_remove"
    assert len(model.prompts) == calls


@pytest.mark.parametrize("factor", [0.6, 1.0, 2.5])
async def test_a_providers_figure_does_not_make_the_second_one_find_something(factor: float) -> None:
    messages = chat(40)
    tokens = int(COUNTER.estimate(Context(messages=messages)).total * factor)
    usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    messages[-1] = AIMessage(content="done", id="last", usage_metadata=usage)
    the_policy = policy(("tokens", 1200), keep=("messages", 30))
    assert COUNTER.breakdown(Context(messages=messages)).scale == pytest.approx(factor, rel=0.1)
    first = compacted(await run(messages, the_policy, ScriptedModel.saying(), force=True))
    assert reason(await run(**after(first), the_policy=the_policy, force=True)) == "nothing_to_remove"


# E4: too little gain


async def test_a_summary_that_gains_too_little_is_not_committed() -> None:
    long = "\n".join(f"- fact {n}: the value of item {n} is {n * 7919}" for n in range(110))
    outcome = await run(chat(20, 10), policy(keep=("messages", 6)), ScriptedModel.saying(long), force=True)
    assert reason(outcome) == "insufficient_gain"
    assert isinstance(outcome, Skipped)
    assert [attempt.name for attempt in outcome.models_tried] == ["m0"]


async def test_when_no_summary_could_gain_enough_no_model_is_asked() -> None:
    model = ScriptedModel.saying()
    system = SystemMessage("rules " * 5000)
    outcome = await run(chat(8, 5), policy(keep=("messages", 6)), model, force=True, system=system)
    assert reason(outcome) == "insufficient_gain"
    assert model.prompts == []


async def test_a_summary_larger_than_the_trigger_is_cut_to_what_the_target_leaves() -> None:
    sections = "\n".join(
        f"## Part {n}\n" + "\n".join(f"- {n} has {i * 7}" for i in range(99)) for n in range(9)
    )
    the_policy = policy(("tokens", 1000), keep=("messages", 4))
    messages = chat(40, 60)
    done = compacted(await run(messages, the_policy, ScriptedModel.saying(sections)))
    assert COUNTER.text(done.summary) <= 250
    assert done.tokens_after <= 1000
    outcome = await run(**after(done), the_policy=the_policy)
    assert reason(outcome) == "below_threshold"


# C2, the whole way: it does not compact again at once


async def test_forty_steps_with_large_results_compact_a_handful_of_times() -> None:
    the_policy = policy(("tokens", 32_000), keep=("messages", 10), trim_tokens_to_summarize=15_564)
    thread: dict[str, Any] = {"messages": [human("Read all the files.")]}
    compactions = []
    for step in range(40):
        text = " ".join(f"line{step}.{i}" for i in range(2300))
        thread["messages"] = [*thread["messages"], *tool_round(f"c{step}", text)]
        outcome = await run(the_policy=the_policy, model=ScriptedModel.saying(), **thread)
        if isinstance(outcome, Compaction):
            compactions.append(outcome)
            thread = after(outcome)
    assert 2 <= len(compactions) <= 20
    assert all(done.coverage == 1.0 for done in compactions)


# E5, E7


async def test_failure_is_an_error_with_what_was_tried_and_how_long_it_took() -> None:
    with pytest.raises(SummaryGenerationError) as failed:
        await run(chat(), policy(keep=("messages", 6)), ScriptedModel.saying(""), force=True)
    assert [attempt.name for attempt in failed.value.models_tried] == ["m0"]
    assert failed.value.duration_ms >= 0


async def test_a_deadline_is_a_timeout() -> None:
    with pytest.raises(SummaryTimeout):
        await run(
            chat(),
            policy(keep=("messages", 6), summary_timeout_s=0.05),
            ScriptedModel.saying(Never()),
            force=True,
        )


@pytest.mark.parametrize("failure", ["", StatusError(500), StatusError(401), "I can't help with that."])
async def test_an_overflow_is_answered_without_any_model(failure: Any) -> None:
    messages = chat()
    outcome = await run(
        messages, policy(keep=("messages", 10)), ScriptedModel.saying(failure), kind="overflow"
    )
    done = compacted(outcome)
    assert done.extractive
    assert done.model_name is None
    assert done.summary.startswith(EXTRACTIVE_MARK)
    assert done.tokens_after < done.tokens_before
    assert done.models_tried[0].error


async def test_an_overflow_prefers_a_models_summary() -> None:
    done = compacted(
        await run(chat(), policy(keep=("messages", 10)), ScriptedModel.saying(), kind="overflow")
    )
    assert (done.extractive, done.summary) == (False, GOOD_SUMMARY)


async def test_without_the_extractive_way_out_an_overflow_is_an_error() -> None:
    with pytest.raises(SummaryGenerationError):
        await run(
            chat(),
            policy(keep=("messages", 10), overflow_fallback="none"),
            ScriptedModel.saying(""),
            kind="overflow",
        )


async def test_an_overflow_ignores_trigger_and_keep_and_halves_the_request() -> None:
    done = compacted(
        await run(
            chat(30), policy(keep=("messages", 100)), ScriptedModel.saying(), kind="overflow", window=100_000
        )
    )
    assert done.tokens_after <= done.tokens_before // 2


async def test_an_overflow_aims_below_the_window_however_small_the_estimate_was() -> None:
    messages = chat(30)
    estimate = COUNTER.estimate(Context(messages=messages)).total
    done = compacted(
        await run(
            messages,
            policy(keep=("messages", 100)),
            ScriptedModel.saying(),
            kind="overflow",
            window=3 * estimate,
        )
    )
    assert done.tokens_after <= estimate // 2 + 1


async def test_an_overflow_commits_even_a_small_gain() -> None:
    messages = [human("x " * 30), ai("y " * 30), human("z " * 4000)]
    done = compacted(
        await run(messages, policy(keep=("messages", 10)), ScriptedModel.saying(""), kind="overflow")
    )
    assert 0 < done.tokens_before - done.tokens_after < done.tokens_before // 10


async def test_an_overflow_of_one_message_has_nothing_to_remove() -> None:
    outcome = await run([human("z " * 4000)], policy(), ScriptedModel.saying(), kind="overflow")
    assert isinstance(outcome, Skipped)


# C7


async def test_a_history_with_an_id_used_twice_is_refused_before_any_call() -> None:
    messages, model = chat(), ScriptedModel.saying()
    messages[3] = messages[3].model_copy(update={"id": messages[1].id})
    with pytest.raises(CompactionInvariantError):
        await run(messages, policy(keep=("messages", 6)), model, force=True)
    assert model.prompts == []


# A first turn of one question and 20 tool rounds


async def test_a_long_first_turn_is_compacted_and_every_result_is_read() -> None:
    rounds = [m for n in range(20) for m in tool_round(f"c{n}", f"finding {n}: " + f"detail{n} " * 300)]
    messages = [human("Compare the twenty reports."), *rounds]
    model = ScriptedModel.saying()
    done = compacted(await run(messages, policy(("tokens", 8000), keep=("messages", 4)), model))
    assert done.kept[0] is messages[0]
    removed = [message for message in done.removed if message.type == "tool"]
    assert len(removed) >= 18
    assert all(message.content[:20] in "\n".join(model.prompts) for message in removed)
    assert done.coverage == 1.0


async def test_parallel_calls_with_a_message_between_stay_together() -> None:
    messages = [*chat(10), ai("", "a", "b"), result("a"), human("hurry"), result("b"), *chat(4)]
    done = compacted(await run(messages, policy(keep=("messages", 6)), ScriptedModel.saying(), force=True))
    group = set(ids(messages[10:14])) - {messages[12].id}
    assert group <= set(ids(done.removed)) or group <= set(ids(done.kept))


async def test_cancellation_in_mid_summary_goes_through() -> None:
    never = Never()
    running = asyncio.create_task(
        run(chat(), policy(keep=("messages", 6)), ScriptedModel.saying(never), force=True)
    )
    await never.entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


# Speed and memory


def long_thread() -> list[BaseMessage]:
    filler = " ".join(f"word{n}" for n in range(62))
    return [human(f"{n} {filler}") if n % 2 else ai(f"{n} {filler}") for n in range(10_000)]


def test_a_compaction_of_ten_thousand_messages_is_planned_within_a_second() -> None:
    context, the_policy = Context(messages=long_thread()), policy(("tokens", 32_000), keep=("messages", 10))
    started = time.process_time()
    planned = plan(context, the_policy, TokenCounter(), force=False)
    assert time.process_time() - started < 1
    assert isinstance(planned, Plan)


async def test_a_compaction_of_ten_thousand_messages_needs_less_than_three_times_its_text() -> None:
    messages, the_policy = long_thread(), policy(("tokens", 32_000), keep=("messages", 10))
    size = sum(len(message.content) for message in messages)
    tracemalloc.start()
    try:
        done = await compact(
            Context(messages=messages), the_policy, TokenCounter(), candidates(ScriptedModel.saying())
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(done, Compaction)
    assert peak < 3 * size


def test_a_call_that_fires_nothing_costs_little_after_the_first() -> None:
    context, counter = Context(messages=long_thread()), TokenCounter()
    the_policy = policy(("tokens", 10_000_000), keep=("messages", 10))
    plan(context, the_policy, counter, force=False)
    started = time.process_time()
    for _ in range(10):
        assert isinstance(plan(context, the_policy, counter, force=False), Skipped)
    assert (time.process_time() - started) / 10 < 0.02


async def test_no_conversation_stands_in_the_repr_of_its_compaction() -> None:
    done = await run(chat(), policy(keep=("messages", 6)), ScriptedModel.saying(), force=True)
    assert "word1" not in repr(done) + repr(Context(messages=chat()))
    assert len(repr(done)) < 1000


def test_planning_makes_no_model_call_and_says_what_would_go() -> None:
    planned = plan(Context(messages=chat()), policy(keep=("messages", 6)), COUNTER, force=True)
    assert isinstance(planned, Plan)
    assert len(planned.partition.removed) == 14
    assert planned.max_summary_tokens == 1500

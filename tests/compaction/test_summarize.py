"""The calls of a summary and the chain of candidates (rules D1, D2, D5, E0-E4, E6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph

from app.compaction.calls import SummaryTask
from app.compaction.prompt import NOTHING_TO_SUMMARISE, TOO_LONG_TO_SUMMARISE
from app.compaction.reading import Reader
from app.compaction.summarize import CandidateHealth, Summary, summarize
from app.compaction.tokens import TokenCounter
from app.compaction.types import Candidate, CompactionPolicy
from app.errors import SummaryGenerationError, SummaryTimeout
from tests.compaction.build import ai, human
from tests.support.models import GOOD_SUMMARY, Never, ScriptedModel, StatusError

COUNT = TokenCounter().text


class Sleeps:
    """Waiting that takes no time and is remembered."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def candidate(name: str, model: ScriptedModel, window: int | None = None) -> Candidate:
    return Candidate(name, lambda: model, window)


def unbuildable(name: str, tries: list[str]) -> Candidate:
    def build() -> ScriptedModel:
        tries.append(name)
        raise ValueError("no key for sk-live-0123456789abcdef")

    return Candidate(name, build)


def thread(messages: int = 6, words: int = 30) -> list[BaseMessage]:
    texts = [" ".join(f"w{n}.{i}" for i in range(words)) for n in range(messages)]
    return [ai(text) if n % 2 else human(text) for n, text in enumerate(texts)]


def task(
    messages: Sequence[BaseMessage] | None = None,
    *,
    previous: str | None = None,
    max_tokens: int = 1500,
    sleep: Callable[[float], Any] | None = None,
    instructions: str | None = None,
    **policy: Any,
) -> SummaryTask:
    return SummaryTask(
        reader=Reader(thread() if messages is None else messages, COUNT),
        previous=previous,
        policy=CompactionPolicy(**policy),
        max_tokens=max_tokens,
        count=COUNT,
        instructions=instructions,
        sleep=sleep or Sleeps(),
    )


def block(prompt: str, tag: str) -> str:
    return prompt.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


async def summary_of(the_task: SummaryTask, *models: ScriptedModel, **fields: Any) -> Summary:
    return await summarize(the_task, [candidate(f"m{n}", model, **fields) for n, model in enumerate(models)])


# D1, D2, D5: what the calls hold


async def test_one_call_with_one_user_message_reads_everything() -> None:
    model = ScriptedModel.saying()
    summary = await summary_of(task(), model)
    assert summary.text == GOOD_SUMMARY
    assert summary.coverage == 1.0
    assert [message.type for message in model.requests[0]] == ["human"]
    assert all(f"w{n}.29" in model.prompts[0] for n in range(6))


async def test_successive_calls_fold_into_the_summary_so_far() -> None:
    model = ScriptedModel.saying("## Intent\nfirst", "## Intent\nsecond", "## Intent\nthird")
    summary = await summary_of(task(thread(12, 200), trim_tokens_to_summarize=3000), model)
    assert len(model.prompts) == 3
    assert summary.text == "## Intent\nthird"
    assert summary.coverage == 1.0
    assert "<existing_summary>" not in model.prompts[0]
    assert block(model.prompts[1], "existing_summary") == "## Intent\nfirst"
    assert block(model.prompts[2], "existing_summary") == "## Intent\nsecond"
    assert "the rest follows later" in model.prompts[1]
    assert "the rest follows later" not in model.prompts[2]


@pytest.mark.parametrize("calls", [1, 2, 8])
async def test_no_more_calls_are_made_than_allowed_and_coverage_says_what_was_read(calls: int) -> None:
    model = ScriptedModel.saying()
    long = task(thread(40, 400), trim_tokens_to_summarize=2000, max_summary_calls=calls)
    summary = await summary_of(long, model)
    assert len(model.prompts) == calls
    assert 0 < summary.coverage < 1
    assert all(any(f"w{n}." in prompt for prompt in model.prompts) for n in range(40))


async def test_a_call_reads_no_more_than_trim_tokens_to_summarize() -> None:
    model = ScriptedModel.saying("## Intent\n" + "fact, " * 3)
    await summary_of(task(thread(30, 200), previous="old " * 900, trim_tokens_to_summarize=1000), model)
    for prompt in model.prompts:
        read = COUNT(block(prompt, "existing_summary")) + COUNT(block(prompt, "new_messages"))
        assert 0 < read <= 1000


async def test_the_old_summary_gets_at_most_half_and_keeps_its_end() -> None:
    previous = " ".join(f"fact{i}" for i in range(5000))
    model = ScriptedModel.saying()
    await summary_of(task(previous=previous, trim_tokens_to_summarize=1000), model)
    existing = block(model.prompts[0], "existing_summary")
    assert COUNT(existing) <= 500
    assert existing.endswith("fact4999")
    assert "characters of the older summary are left out" in existing


async def test_what_a_short_old_summary_does_not_use_goes_to_the_new_messages() -> None:
    model = ScriptedModel.saying()
    await summary_of(task(thread(30, 200), previous="short", trim_tokens_to_summarize=1000), model)
    assert COUNT(block(model.prompts[0], "new_messages")) > 800


@pytest.mark.parametrize(("trim", "window"), [(None, 8000), (50_000, 8000)])
async def test_a_call_always_fits_the_candidates_window(trim: int | None, window: int) -> None:
    model = ScriptedModel.saying()
    messages = thread(60, 400)
    summary = await summary_of(task(messages, trim_tokens_to_summarize=trim), model, window=window)
    assert len(model.prompts) > 1
    assert all(COUNT(prompt) + 1500 <= window for prompt in model.prompts)
    assert summary.coverage < 1 or len(model.prompts) <= 8


async def test_without_a_limit_or_a_window_long_threads_are_still_read_in_portions() -> None:
    model = ScriptedModel.saying()
    summary = await summary_of(task(thread(100, 400), trim_tokens_to_summarize=None), model)
    assert summary.coverage == 1.0
    assert all(COUNT(prompt) < 36_000 for prompt in model.prompts)


async def test_a_tiny_declared_window_is_tried_all_the_same() -> None:
    summary = await summary_of(task(trim_tokens_to_summarize=4000), ScriptedModel.saying(), window=500)
    assert summary.text == GOOD_SUMMARY


async def test_messages_without_any_text_need_no_model() -> None:
    model = ScriptedModel.saying()
    assert (await summary_of(task([ai(""), human("")]), model)).text == NOTHING_TO_SUMMARISE
    assert (await summary_of(task([ai("")], previous="old"), model)).text == "old"
    assert model.prompts == []


async def test_when_not_a_word_fits_no_model_is_asked() -> None:
    model = ScriptedModel.saying()
    summary = await summary_of(task(thread(3, 300), trim_tokens_to_summarize=5), model)
    assert (summary.text, summary.coverage) == (TOO_LONG_TO_SUMMARISE, 0.0)
    assert model.prompts == []


async def test_the_canned_text_never_replaces_a_real_summary() -> None:
    with pytest.raises(SummaryGenerationError, match="not a word"):
        await summary_of(
            task(thread(3, 300), previous="real", trim_tokens_to_summarize=5), ScriptedModel.saying()
        )


async def test_instructions_reach_every_call() -> None:
    model = ScriptedModel.saying()
    await summary_of(task(thread(12, 200), trim_tokens_to_summarize=3000, instructions="keep the SQL"), model)
    assert len(model.prompts) > 1
    assert all("keep the SQL" in prompt for prompt in model.prompts)


async def test_the_summary_is_bounded_by_max_tokens() -> None:
    sections = "\n".join(
        f"## Part {n}\n" + "\n".join(f"- {n} has {i * 7}" for i in range(99)) for n in range(9)
    )
    model = ScriptedModel.saying(sections)
    summary = await summary_of(task(max_tokens=300), model)
    assert COUNT(summary.text) <= 300
    assert "At most about 300 tokens" in model.prompts[0]


# E6: the calls are invisible


class Watcher(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.started: list[Any] = []

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.started.append(kwargs.get("tags"))


async def test_calls_inside_a_run_inherit_no_callbacks_and_carry_the_tags() -> None:
    outer, own = Watcher(), Watcher()
    model = ScriptedModel.saying()
    model.callbacks = [own]

    async def node(_: Any) -> str:
        return (await summary_of(task(), model)).text

    await RunnableLambda(node).ainvoke(None, config={"callbacks": [outer], "tags": ["run"]})
    assert outer.started == []
    assert [set(tags) for tags in own.started] == [{"nostream", "middleware:summarize"}]


async def test_no_word_of_a_summary_reaches_the_streams_of_a_graph() -> None:
    async def node(state: dict[str, Any]) -> dict[str, Any]:
        return {"length": len((await summary_of(task(), ScriptedModel.saying())).text)}

    graph = StateGraph(dict).add_node("compacts", node).add_edge(START, "compacts").compile()
    modes = ["messages", "updates", "custom"]
    streamed = [part async for part in graph.astream({}, stream_mode=modes)]
    events = [event async for event in graph.astream_events({}, version="v2")]
    assert [mode for mode, _ in streamed] == ["updates"]
    assert not [event for event in events if "chat_model" in event["event"]]


async def test_the_model_itself_is_left_as_it_is() -> None:
    model = ScriptedModel.saying()
    before = model.model_dump()
    await summary_of(task(), model)
    assert model.model_dump() == before
    assert model.tags is None


# E0-E2: the chain


async def test_the_first_candidate_that_succeeds_wins_and_the_rest_is_not_built() -> None:
    tries: list[str] = []
    first = candidate("first", ScriptedModel.saying())
    summary = await summarize(task(), [first, unbuildable("second", tries)])
    assert summary.model_name == "first"
    assert [(a.name, a.error) for a in summary.attempts] == [("first", None)]
    assert tries == []


FAILURES: list[Any] = [
    StatusError(401),
    StatusError(404),
    ValueError("broken JSON"),
    "",
    "   \n",
    "I'm sorry, but I can't assist with that.",
    AIMessage(content=GOOD_SUMMARY, response_metadata={"finish_reason": "length"}),
    AIMessage(content="", additional_kwargs={"refusal": "no"}),
    "again and again, " * 60,
    lambda prompt: prompt,
    "<think>no end",
]


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_candidate_that_fails_hands_over_to_the_next(failure: Any) -> None:
    bad, good = ScriptedModel.saying(failure), ScriptedModel.saying()
    summary = await summary_of(task(), bad, good)
    assert summary.model_name == "m1"
    assert summary.text == GOOD_SUMMARY
    assert summary.attempts[0].error
    assert summary.attempts[1].error is None
    assert len(bad.prompts) == 1


async def test_a_candidate_whose_text_cannot_be_read_hands_over_to_the_next() -> None:
    class Unreadable(AIMessage):
        @property
        def text(self) -> str:  # type: ignore[override]
            raise ValueError("no text here")

    bad = ScriptedModel.saying(Unreadable(content="x"))
    summary = await summary_of(task(), bad, ScriptedModel.saying())
    assert summary.model_name == "m1"


async def test_each_name_is_tried_once() -> None:
    model = ScriptedModel.saying(StatusError(401))
    same = candidate("same", model)
    with pytest.raises(SummaryGenerationError) as failed:
        await summarize(task(), [same, candidate("other", ScriptedModel.saying("")), same])
    assert [attempt.name for attempt in failed.value.models_tried] == ["same", "other"]
    assert len(model.prompts) == 1


async def test_when_all_fail_the_error_names_each_reason_without_secrets() -> None:
    with pytest.raises(SummaryGenerationError) as failed:
        await summarize(
            task(),
            [
                unbuildable("a", []),
                candidate("b", ScriptedModel.saying("")),
                candidate("c", ScriptedModel.saying(StatusError(403))),
            ],
        )
    assert not isinstance(failed.value, SummaryTimeout)
    text = str(failed.value)
    assert "a: cannot be built (ValueError: no key for [secret:openai-key])" in text
    assert "b: RefusedSummary: blank" in text
    assert "c: StatusError: HTTP 403" in text
    assert "sk-live" not in text


async def test_without_any_candidate_the_error_says_so() -> None:
    with pytest.raises(SummaryGenerationError, match="none is configured"):
        await summarize(task(), [])


async def test_a_failed_construction_is_remembered_for_a_minute_only() -> None:
    now, tries = [1000.0], []
    health = CandidateHealth(now=lambda: now[0])
    chain = [unbuildable("broken", tries), candidate("good", ScriptedModel.saying())]
    for seconds, expected in ((0, 1), (59, 1), (2, 2), (30, 2), (31, 3)):
        now[0] += seconds
        summary = await summarize(task(), chain, health)
        assert summary.model_name == "good"
        assert summary.attempts[0].error
        assert len(tries) == expected


async def test_usage_is_summed_over_all_calls_failed_ones_included() -> None:
    def reply(text: str) -> AIMessage:
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        return AIMessage(content=text, usage_metadata=usage)

    refused, good = ScriptedModel.saying(reply("")), ScriptedModel.saying(reply(GOOD_SUMMARY))
    long = task(thread(12, 200), trim_tokens_to_summarize=3000)
    summary = await summary_of(long, refused, good)
    assert len(good.prompts) == 3
    assert summary.usage == {"input_tokens": 400, "output_tokens": 40, "total_tokens": 440}
    with pytest.raises(SummaryGenerationError) as failed:
        await summary_of(task(), ScriptedModel.saying(reply("")))
    assert failed.value.usage["total_tokens"] == 110


# E3: overflow, transient errors, deadline


async def test_a_call_that_overflows_is_retried_once_with_a_strictly_shorter_input() -> None:
    model = ScriptedModel.saying(ContextOverflowError("too long"), GOOD_SUMMARY)
    summary = await summary_of(task(thread(20, 60), trim_tokens_to_summarize=8000), model)
    assert len(model.prompts[1]) < len(model.prompts[0])
    assert len(block(model.prompts[1], "new_messages")) < 0.6 * len(block(model.prompts[0], "new_messages"))
    assert summary.coverage == 1.0
    assert "w19.59" in model.prompts[-1]


async def test_the_shorter_retry_of_the_only_call_shortens_messages() -> None:
    model = ScriptedModel.saying(ContextOverflowError("too long"), GOOD_SUMMARY)
    only = task(thread(20, 60), trim_tokens_to_summarize=8000, max_summary_calls=1)
    summary = await summary_of(only, model)
    assert len(model.prompts) == 2
    assert 0.3 < summary.coverage < 0.8


async def test_a_second_overflow_of_the_same_call_ends_the_candidate() -> None:
    bad = ScriptedModel.saying(ContextOverflowError("too long"))
    summary = await summary_of(task(thread(20, 60)), bad, ScriptedModel.saying())
    assert len(bad.prompts) == 2
    assert summary.model_name == "m1"


async def test_what_counts_as_overflow_is_the_callers_to_say() -> None:
    model = ScriptedModel.saying(StatusError(413), GOOD_SUMMARY)
    the_task = task(thread(20, 60))
    sharper = SummaryTask(
        the_task.reader,
        None,
        the_task.policy,
        1500,
        COUNT,
        is_overflow=lambda error: getattr(error, "status_code", 0) == 413,
    )
    assert (await summary_of(sharper, model)).text == GOOD_SUMMARY
    assert len(model.prompts[1]) < len(model.prompts[0])


@pytest.mark.parametrize(
    "error", [StatusError(429), StatusError(500), StatusError(503), ConnectionResetError()]
)
async def test_a_transient_error_gets_one_retry_of_the_same_call(error: Exception) -> None:
    sleeps = Sleeps()
    model = ScriptedModel.saying(error, GOOD_SUMMARY)
    assert (await summary_of(task(sleep=sleeps), model)).text == GOOD_SUMMARY
    assert model.prompts[0] == model.prompts[1]
    assert len(sleeps.seconds) == 1
    assert 0 < sleeps.seconds[0] <= 1


async def test_a_transient_error_that_comes_again_hands_over_to_the_next() -> None:
    bad = ScriptedModel.saying(StatusError(503))
    summary = await summary_of(task(), bad, ScriptedModel.saying())
    assert len(bad.prompts) == 2
    assert summary.model_name == "m1"


async def test_a_retry_after_that_fits_is_honoured() -> None:
    sleeps = Sleeps()
    model = ScriptedModel.saying(StatusError(429, {"retry-after": "7"}), GOOD_SUMMARY)
    await summary_of(task(sleep=sleeps), model)
    assert sleeps.seconds == [7.0]


async def test_a_retry_after_that_does_not_fit_hands_over_at_once() -> None:
    sleeps = Sleeps()
    bad = ScriptedModel.saying(StatusError(429, {"retry-after": "50"}))
    summary = await summary_of(task(sleep=sleeps, summary_timeout_s=60), bad, ScriptedModel.saying())
    assert (len(bad.prompts), sleeps.seconds, summary.model_name) == (1, [], "m1")


async def test_a_used_up_account_is_not_asked_again() -> None:
    bad = ScriptedModel.saying(StatusError(429, code="insufficient_quota"))
    await summary_of(task(), bad, ScriptedModel.saying())
    assert len(bad.prompts) == 1


async def test_the_first_of_two_may_use_two_thirds_of_the_deadline() -> None:
    never, loop = Never(), asyncio.get_running_loop()
    started = loop.time()
    summary = await summary_of(
        task(summary_timeout_s=0.6), ScriptedModel.saying(never), ScriptedModel.saying()
    )
    assert 0.35 < loop.time() - started < 0.58
    assert never.cancelled
    assert summary.model_name == "m1"
    assert summary.attempts[0].error == "no summary within 0.4 s"


async def test_the_deadline_of_the_whole_is_a_timeout() -> None:
    with pytest.raises(SummaryTimeout) as failed:
        await summary_of(
            task(summary_timeout_s=0.3), ScriptedModel.saying(Never()), ScriptedModel.saying(Never())
        )
    assert [attempt.name for attempt in failed.value.models_tried] == ["m0", "m1"]


async def test_a_fallback_that_fails_by_itself_is_no_timeout() -> None:
    with pytest.raises(SummaryGenerationError) as failed:
        await summary_of(task(summary_timeout_s=0.3), ScriptedModel.saying(Never()), ScriptedModel.saying(""))
    assert not isinstance(failed.value, SummaryTimeout)


async def test_a_timeout_error_of_the_model_itself_is_not_the_deadline() -> None:
    with pytest.raises(SummaryGenerationError) as failed:
        await summary_of(task(), ScriptedModel.saying(TimeoutError("read")))
    assert not isinstance(failed.value, SummaryTimeout)


async def test_the_deadline_covers_all_calls_together() -> None:
    def slow(prompt: str) -> Any:
        return Never() if "<existing_summary>" in prompt else GOOD_SUMMARY

    with pytest.raises(SummaryTimeout):
        await summary_of(
            task(thread(12, 200), trim_tokens_to_summarize=3000, summary_timeout_s=0.2),
            ScriptedModel.saying(slow),
        )


async def test_cancellation_goes_through_and_reaches_the_model() -> None:
    never, fallback = Never(), ScriptedModel.saying()
    running = asyncio.create_task(summary_of(task(), ScriptedModel.saying(never), fallback))
    await never.entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert never.cancelled
    assert fallback.prompts == []

"""Arbitrary histories for hypothesis: everything that real and broken threads were seen to hold.

Humans, models with 0 to 4 tool calls, results in any order, results that are missing or belong to nobody,
call ids that come again, messages between a call and its result, system messages in the middle, reminders,
hidden messages, clarifications, pictures, Chinese, reasoning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from app.compaction.types import CompactionPolicy, ContextSize

Draw = Callable[[st.SearchStrategy[Any]], Any]

_CALL_IDS = [f"c{i}" for i in range(6)]
_TEXTS = [
    "",
    "yes",
    "Please read the report and list what is missing. " * 3,
    "请总结这份报告的主要结论，并列出需要进一步研究的问题。" * 2,
    '{"rows": [{"id": 1, "ok": true}, {"id": 2, "ok": null}]}' * 4,
    "def f(x):\n    return x ** 2  # naïve 🎉\n" * 3,
    "<summary>&amp;</summary> ```\n" * 2,
    "word " * 400,
]
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

texts = st.sampled_from(_TEXTS)
call_ids = st.sampled_from(_CALL_IDS)
dates = st.sampled_from(["2026-01-01", "2026-01-02", "2026-01-03"])


def contents() -> st.SearchStrategy[Any]:
    """Plain text most of the time, else blocks with a picture or a file."""
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}}
    handle = {"type": "image", "url": "https://example.com/a.png"}
    file = {"type": "file", "base64": _PIXEL, "mime_type": "application/pdf"}
    blocks = st.sampled_from([image, handle, file])
    rich = st.builds(lambda text, block: [{"type": "text", "text": text}, block], texts, blocks)
    return st.one_of(texts, texts, texts, rich)


def _human(draw: Draw) -> Iterator[BaseMessage]:
    yield HumanMessage(content=draw(contents()))


def _hidden(draw: Draw) -> Iterator[BaseMessage]:
    flags: dict[str, Any] = {"hide_from_ui": True}
    if draw(st.booleans()):
        flags["human_input_response"] = {"value": "yes"}
    yield HumanMessage(content=draw(texts), additional_kwargs=flags)


def _old_summary(draw: Draw) -> Iterator[BaseMessage]:
    yield HumanMessage(content=draw(texts), name="summary")


def _system(draw: Draw) -> Iterator[BaseMessage]:
    yield SystemMessage(content=draw(texts))


def _reminder(draw: Draw) -> Iterator[BaseMessage]:
    flags = {"dynamic_context_reminder": True, "hide_from_ui": True}
    date = draw(dates)
    yield SystemMessage(content=date, additional_kwargs={**flags, "reminder_date": date})
    if draw(st.booleans()):
        yield HumanMessage(content="memory", id="__memory", additional_kwargs=flags)


def _says(draw: Draw) -> Iterator[BaseMessage]:
    yield AIMessage(content=draw(contents()))


def _reasons(draw: Draw) -> Iterator[BaseMessage]:
    block = draw(
        st.sampled_from([{"type": "reasoning", "reasoning": "hm"}, {"type": "thinking", "thinking": "hm"}])
    )
    yield AIMessage(content=[block])


def _calls(draw: Draw) -> Iterator[BaseMessage]:
    ids = draw(st.lists(call_ids, min_size=1, max_size=4))
    name = draw(st.sampled_from(["read", "read", "ask_clarification"]))
    calls = [{"name": name, "args": {"path": draw(texts)}, "id": call_id} for call_id in ids]
    broken = [{"name": name, "args": "{", "id": draw(call_ids), "error": "no JSON"}] if draw(_seldom) else []
    yield AIMessage(content=draw(texts), tool_calls=calls, invalid_tool_calls=broken)


def _results(draw: Draw) -> Iterator[BaseMessage]:
    for call_id in draw(st.lists(call_ids, min_size=1, max_size=3)):
        status = draw(st.sampled_from(["success", "success", "error"]))
        yield ToolMessage(content=draw(contents()), tool_call_id=call_id, status=status)


def _round(draw: Draw) -> Iterator[BaseMessage]:
    """A round in good order: parallel calls and all their results, shuffled, sometimes with somebody
    between."""
    ids = draw(st.lists(call_ids, min_size=1, max_size=4, unique=True))
    content = draw(st.sampled_from(["", [{"type": "thinking", "thinking": "hm", "signature": "x"}]]))
    yield AIMessage(content=content, tool_calls=[{"name": "read", "args": {}, "id": i} for i in ids])
    if draw(_seldom):
        yield HumanMessage(content="wait")
    for call_id in draw(st.permutations(ids)):
        yield ToolMessage(content=draw(texts), tool_call_id=call_id)


def _clarification(draw: Draw) -> Iterator[BaseMessage]:
    call_id = draw(call_ids)
    yield AIMessage(
        content="", tool_calls=[{"name": "ask_clarification", "args": {"question": "?"}, "id": call_id}]
    )
    name = draw(st.sampled_from(["ask_clarification", None]))
    yield ToolMessage(content="the second", tool_call_id=call_id, name=name)
    if draw(st.booleans()):
        yield HumanMessage(content="the second", additional_kwargs={"hide_from_ui": draw(st.booleans())})


_seldom = st.sampled_from([True, False, False, False])
_EVENTS = [
    *[_human, _says, _round, _calls, _results] * 3,
    *[_hidden, _old_summary, _system, _reminder, _reasons, _clarification],
]


@st.composite
def histories(draw: Draw, min_events: int = 0, max_events: int = 25) -> list[BaseMessage]:
    """A history whose messages have ids of their own, in any order that can be thought of."""
    numbers = count()
    messages: list[BaseMessage] = []
    # Drawn first, since lists of hypothesis are mostly short and short histories show little.
    size = draw(st.integers(min_events, max_events))
    for event in draw(st.lists(st.sampled_from(_EVENTS), min_size=size, max_size=size)):
        messages.extend(event(draw))
    return [message.model_copy(update={"id": f"m{next(numbers)}{message.id or ''}"}) for message in messages]


@st.composite
def pins(draw: Draw, messages: list[BaseMessage]) -> frozenset[str]:
    """Some messages of a history, pinned."""
    if not messages:
        return frozenset()
    chosen = draw(st.lists(st.sampled_from(messages), max_size=3))
    return frozenset(message.id for message in chosen)


def sizes(largest: int) -> st.SearchStrategy[ContextSize]:
    """Amounts of context up to so many tokens."""
    return st.one_of(
        st.integers(1, 30).map(lambda n: ContextSize("messages", n)),
        st.integers(1, largest).map(lambda n: ContextSize("tokens", n)),
        st.floats(0.01, 1.0).map(lambda f: ContextSize("fraction", f)),
    )


@st.composite
def policies(draw: Draw) -> CompactionPolicy:
    """Policies that load: any trigger, any keep, any target."""
    policy = CompactionPolicy(
        trigger=tuple(draw(st.lists(sizes(5000), max_size=3))),
        keep=draw(sizes(3000)),
        target_fraction=draw(st.sampled_from([0.1, 0.5, 1.0])),
    )
    return replace(policy, pin_budget_tokens=draw(st.sampled_from([1, 100, 4000])))

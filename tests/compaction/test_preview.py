"""A plan says what the compaction then does, message by message (rules C2-C6)."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from app.compaction.pins import pin_prices
from app.compaction.pipeline import compact
from app.compaction.preview import Preview, preview
from app.compaction.tokens import TokenCounter
from app.compaction.types import Candidate, Compaction, CompactionPolicy, Context, ContextSize, Skipped
from tests.compaction.build import ids
from tests.compaction.histories import histories, pins, policies
from tests.support.models import ScriptedModel

COUNTER = TokenCounter()
KEPT_WORDS = {
    *("system", "reminder", "newest_user_message", "pinned", "pending_tool_call", "tool_pair", "tail"),
}
REMOVED_WORDS = {"older_than_keep", "over_target", "pin_over_budget", "superseded_reminder"}


def words(verdicts: Any) -> dict[str, str]:
    return {verdict.message_id: verdict.why for verdict in verdicts}


def keeping(count: int, **changes: Any) -> CompactionPolicy:
    return CompactionPolicy(keep=ContextSize("messages", count), min_gain_fraction=0.01, **changes)


def planned(messages: list[BaseMessage], policy: CompactionPolicy, *pinned: str) -> Preview:
    return preview(Context(messages, pinned=frozenset(pinned)), policy, COUNTER, force=True)


def exchange(number: int, size: int = 200) -> list[BaseMessage]:
    return [
        HumanMessage(f"question {number} " + "word " * size, id=f"q{number}"),
        AIMessage(f"answer {number} " + "word " * size, id=f"a{number}"),
    ]


def round_of(number: int) -> list[BaseMessage]:
    call = {"name": "read", "args": {}, "id": f"c{number}", "type": "tool_call"}
    return [
        AIMessage("", id=f"t{number}", tool_calls=[call]),
        ToolMessage("row " * 300, id=f"r{number}", tool_call_id=f"c{number}"),
    ]


@settings(deadline=None, max_examples=150)
@given(st.data(), histories(max_events=30), policies(), st.booleans(), st.sampled_from([None, 2000, 100_000]))
def test_a_plan_and_the_compaction_agree_on_every_message(
    data: st.DataObject,
    messages: list[BaseMessage],
    policy: CompactionPolicy,
    force: bool,
    window: int | None,
) -> None:
    pinned = data.draw(pins(messages))

    async def look_up() -> frozenset[str]:
        return pinned

    foreseen = preview(Context(messages, window=window, pinned=pinned), policy, COUNTER, force=force)
    model = ScriptedModel.saying()
    done = asyncio.run(
        compact(
            Context(messages, window=window),
            policy,
            COUNTER,
            [Candidate("m", lambda: model)],
            kind="manual",
            force=force,
            pins=look_up,
        )
    )
    assert foreseen.tokens_before == done.tokens_before
    if foreseen.reason:
        assert isinstance(done, Skipped)
        assert done.reason == foreseen.reason
        assert not model.prompts
        assert [verdict.message_id for verdict in foreseen.keep] == ids(messages)
        assert not foreseen.remove
        return
    assert model.prompts
    assert set(words(foreseen.keep).values()) <= KEPT_WORDS
    assert set(words(foreseen.remove).values()) <= REMOVED_WORDS
    if isinstance(done, Compaction):
        assert [verdict.message_id for verdict in foreseen.keep] == ids(done.kept)
        assert set(words(foreseen.remove)) == {*ids(done.removed), *ids(done.dropped)}
        assert done.tokens_after <= foreseen.tokens_after_estimate + 1
        assert pinned <= {*ids(done.kept), *done.waived_pins}


def test_each_message_has_its_reason() -> None:
    reminder = {"dynamic_context_reminder": True, "hide_from_ui": True}
    messages: list[BaseMessage] = [
        SystemMessage("rules", id="s"),
        SystemMessage("2026-01-01", id="old", additional_kwargs={**reminder, "reminder_date": "2026-01-01"}),
        *exchange(1),
        SystemMessage("2026-01-02", id="new", additional_kwargs={**reminder, "reminder_date": "2026-01-02"}),
        *round_of(1),
        *exchange(2),
        HumanMessage("go on", id="asked"),
        *round_of(2),
        *round_of(3),
    ]
    foreseen = planned(messages, keeping(3), "r1")
    assert words(foreseen.remove) == {
        "old": "superseded_reminder",
        "q1": "older_than_keep",
        "a1": "older_than_keep",
        "q2": "older_than_keep",
        "a2": "older_than_keep",
    }
    assert words(foreseen.keep) == {
        "s": "system",
        "new": "reminder",
        "t1": "tool_pair",
        "r1": "pinned",
        "asked": "newest_user_message",
        "t2": "tool_pair",
        "r2": "tail",
        "t3": "tail",
        "r3": "tail",
    }


def test_what_keep_asks_for_and_the_target_forbids_is_over_target() -> None:
    messages = [message for number in range(6) for message in exchange(number)]
    policy = keeping(10, trigger=(ContextSize("tokens", 1200),), max_summary_tokens=100)
    foreseen = planned(messages, policy)
    removed = words(foreseen.remove)
    assert [removed["q0"], removed["a0"]] == ["older_than_keep"] * 2
    assert {why for message_id, why in removed.items() if message_id not in ("q0", "a0")} == {"over_target"}
    assert set(words(foreseen.keep).values()) == {"tail", "newest_user_message"}


def test_an_old_reminder_beyond_the_pin_budget_is_dropped_like_any_other() -> None:
    flags = {"dynamic_context_reminder": True}
    reminders: list[BaseMessage] = [
        SystemMessage(day, id=day, additional_kwargs={**flags, "reminder_date": day})
        for day in ("2026-01-01", "2026-01-02")
    ]
    messages = [*reminders, *exchange(1), *exchange(2)]
    assert words(planned(messages, keeping(2), "2026-01-01").keep)["2026-01-01"] == "pinned"
    over = planned(messages, keeping(2, pin_budget_tokens=1), "2026-01-01")
    assert words(over.remove)["2026-01-01"] == "superseded_reminder"
    assert pin_prices(messages, ["2026-01-02", "2026-01-01"], COUNTER) == {
        "2026-01-02": 0,
        "2026-01-01": COUNTER.message(reminders[0]),
    }


def test_a_call_that_waits_for_its_result_stays_for_that() -> None:
    messages = [*exchange(1), *exchange(2), *round_of(1)[:1]]
    assert words(planned(messages, keeping(1)).keep)["t1"] == "pending_tool_call"


def test_a_pin_beyond_the_budget_is_named_as_such() -> None:
    messages = [*exchange(1), *exchange(2), *exchange(3)]
    foreseen = planned(messages, keeping(2, pin_budget_tokens=5), "q1")
    assert words(foreseen.remove)["q1"] == "pin_over_budget"


def test_nothing_to_do_says_why_and_keeps_all() -> None:
    messages = [SystemMessage("rules", id="s"), *exchange(1)]
    foreseen = preview(Context(messages), keeping(20), COUNTER, force=False)
    assert foreseen.reason == "below_threshold"
    assert words(foreseen.keep) == {"s": "system", "q1": "newest_user_message", "a1": "no_compaction"}
    assert foreseen.tokens_before == foreseen.tokens_after_estimate > 0


def test_a_pin_costs_its_whole_group_once() -> None:
    messages = [SystemMessage("rules", id="s"), *round_of(1), *exchange(1)]
    cost = {message.id: COUNTER.message(message) for message in messages}
    pair = cost["t1"] + cost["r1"]
    assert pin_prices(messages, ["r1", "t1", "gone", "q1", "s"], COUNTER) == {
        "r1": pair,
        "t1": 0,
        "q1": cost["q1"],
        "s": 0,
    }


@given(st.data(), histories(min_events=1), policies())
def test_pins_that_fit_by_their_price_are_kept(
    data: st.DataObject, messages: list[BaseMessage], policy: CompactionPolicy
) -> None:
    pinned = data.draw(pins(messages))
    if sum(pin_prices(messages, pinned, COUNTER).values()) > policy.pin_budget_tokens:
        return
    foreseen = preview(Context(messages, pinned=pinned), policy, COUNTER, force=True)
    assert not pinned & set(words(foreseen.remove))

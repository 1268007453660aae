"""Each invariant forbids its own cuts, and the allowed ones are those that none forbids (rule C3)."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from langchain_core.messages import BaseMessage

from app.compaction.history import History
from app.compaction.invariants import INVARIANTS, allowed_cuts
from app.compaction.invariants.last_message import LastMessage
from app.compaction.invariants.pairs import Pairs
from app.compaction.invariants.pending import PendingCall
from app.compaction.invariants.reasoning import Reasoning
from app.compaction.invariants.runs import ResultRuns
from tests.compaction.build import ai, human, result, tool_round
from tests.compaction.histories import histories


def cuts(invariant: object, *messages: BaseMessage) -> tuple[int, ...]:
    return allowed_cuts(History.of(messages), (invariant,))  # type: ignore[arg-type]


def test_a_call_holds_its_results_whatever_stands_between() -> None:
    assert cuts(Pairs(), human(), ai("", "c1"), human(), result("c1"), human()) == (0, 1, 4, 5)


def test_a_call_whose_arguments_did_not_parse_holds_its_result_too() -> None:
    broken = ai("", invalid_tool_calls=[{"name": "read", "args": "{", "id": "c1", "error": "x"}])
    assert cuts(Pairs(), broken, result("c1")) == (0, 2)


def test_a_call_in_the_providers_own_form_holds_its_result_too() -> None:
    raw = ai([{"type": "tool_use", "id": "c1", "name": "read", "input": {}}])
    assert cuts(Pairs(), raw, result("c1")) == (0, 2)


def test_an_orphan_result_belongs_to_nobody() -> None:
    assert cuts(Pairs(), human(), result("nobody"), human()) == (0, 1, 2, 3)


def test_a_run_of_results_is_not_cut() -> None:
    assert cuts(ResultRuns(), human(), result("a"), result("b"), human(), result("c")) == (0, 1, 3, 4, 5)


def test_a_message_of_reasoning_alone_stays_with_the_call_behind_it() -> None:
    thought = ai([{"type": "reasoning", "reasoning": "hm"}])
    assert cuts(Reasoning(), human(), thought, *tool_round("c1")) == (0, 1, 3, 4)


def test_reasoning_with_something_said_stands_on_its_own() -> None:
    said = ai([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}])
    assert cuts(Reasoning(), said, ai("next")) == (0, 1, 2)


def test_a_pending_call_forbids_every_cut_behind_it() -> None:
    assert cuts(PendingCall(), human(), ai("", "c1", "c2"), result("c1")) == (0, 1)


def test_a_call_is_pending_only_while_nothing_but_results_follows() -> None:
    assert cuts(PendingCall(), ai("", "c1"), human()) == (0, 1, 2)
    assert cuts(PendingCall(), *tool_round("c1")) == (0, 1, 2)


def test_the_cut_behind_the_last_message_is_never_allowed() -> None:
    assert cuts(LastMessage(), human(), human()) == (0, 1)
    assert cuts(LastMessage()) == (0,)


@given(histories())
def test_a_cut_is_allowed_exactly_where_no_invariant_forbids_it(messages: list[BaseMessage]) -> None:
    history = History.of(messages)
    forbidden = {cut for invariant in INVARIANTS for cuts in invariant.forbidden(history) for cut in cuts}
    assert allowed_cuts(history) == tuple(c for c in range(len(messages) + 1) if c == 0 or c not in forbidden)


def test_a_new_invariant_only_has_to_be_added() -> None:
    class NoCutInTheFirstThree:
        def forbidden(self, history: History) -> Iterator[range]:
            yield range(1, 3)

    messages = [human() for _ in range(5)]
    assert allowed_cuts(History.of(messages), (*INVARIANTS, NoCutInTheFirstThree())) == (0, 3, 4)

"""The whole conversation from what is live and what compactions removed, whatever happened (pure model)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from app.compaction.chain import Chain, InForce, Link, chain_of
from app.compaction.restore import changed_since, restored
from app.compaction.timeline import Place, Removal, continued, merged, timeline


@dataclass(frozen=True)
class State:
    """A checkpoint: what is live, which marker stands in it; and what the person has seen said so far."""

    live: tuple[BaseMessage, ...] = ()
    marker: str | None = None
    said: tuple[BaseMessage, ...] = ()


@dataclass
class Model:
    """A thread without a database: ``archive`` has what each record removed, in no useful order."""

    state: State = State()
    past: list[State] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    removals: dict[str, Removal] = field(default_factory=dict)
    archive: dict[tuple[str, str], BaseMessage] = field(default_factory=dict)
    count: int = 0

    @property
    def chain(self) -> Chain:
        return chain_of(self.links, self.state.marker)

    def new_id(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    def become(self, state: State) -> None:
        self.past.append(self.state)
        self.state = state

    def say(self, number: int) -> None:
        kinds = (HumanMessage, AIMessage, SystemMessage)
        new = tuple(kinds[i % 3](f"text {self.count}", id=self.new_id("m")) for i in range(number % 5 + 1))
        self.become(replace(self.state, live=self.state.live + new, said=self.state.said + new))

    def edit(self, number: int) -> None:
        if self.state.live:
            old = self.state.live[number % len(self.state.live)]
            self.replace_message(old, [old.model_copy(update={"content": f"edited {self.new_id('e')}"})])

    def delete(self, number: int) -> None:
        if self.state.live:
            self.replace_message(self.state.live[number % len(self.state.live)], [])

    def replace_message(self, old: BaseMessage, by: Sequence[BaseMessage]) -> None:
        live, said = (
            tuple(new for message in messages for new in (by if message.id == old.id else [message]))
            for messages in (self.state.live, self.state.said)
        )
        self.become(replace(self.state, live=live, said=said))

    def compact(self, number: int) -> None:
        """Removes any messages but the last, in any pattern."""
        removed = {m.id for i, m in enumerate(self.state.live[:-1]) if number >> (i % 16) & 1}
        if removed:
            self.remove("auto", {str(message_id) for message_id in removed}, None)

    def remove(self, kind: str, removed: set[str], target: str | None) -> None:
        record = self.new_id("c")
        seen = [str(message.id) for message in self.state.live]
        self.links[record] = Link(record, kind, self.state.marker, target)
        self.removals[record] = Removal(record, sorted(removed), seen)
        self.archive |= {(record, str(m.id)): m for m in self.state.live if m.id in removed}
        kept = tuple(message for message in self.state.live if message.id not in removed)
        self.become(replace(self.state, live=kept, marker=record))

    def undo(self, _: int) -> None:
        if not self.chain.in_force:
            return
        newest = self.chain.in_force[-1]
        record = self.new_id("u")
        live = restored(self.state.live, self.removals[newest.carrier_id], self.removed(newest.carrier_id))
        self.links[record] = Link(record, "undo", self.state.marker, newest.compaction_id)
        self.become(replace(self.state, live=tuple(live), marker=record))

    def redo(self, _: int) -> None:
        if not self.chain.undone:
            return
        target = self.chain.undone[-1]
        digests = {message_id: str(message.content) for message_id, message in self.removed(target).items()}
        if not changed_since(self.state.live, digests, lambda message: str(message.content)):
            self.remove("redo", set(digests), target)

    def fork(self, number: int) -> None:
        if self.past:
            self.become(self.past[number % len(self.past)])

    def removed(self, record: str) -> Mapping[str, BaseMessage]:
        return {i: self.archive[record, i] for i in self.removals[record].removed_ids}

    def page(self) -> list[BaseMessage]:
        """The whole conversation, as the service puts it together."""
        live = {message.id: message for message in self.state.live}
        carriers = [made.carrier_id for made in reversed(self.chain.in_force)]
        places = timeline(
            [message.id for message in self.state.live], (self.removals[carrier] for carrier in carriers)
        )
        return [
            live[place.message_id]
            if place.compaction_id is None
            else self.archive[place.compaction_id, str(place.message_id)]
            for place in places
        ]


STEPS = ("say", "edit", "delete", "compact", "compact", "undo", "redo", "fork")


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**16 - 1)), min_size=1, max_size=14),
    st.integers(3, 20),
)
def test_whatever_happens_the_conversation_is_complete_and_in_order(
    steps: list[tuple[str, int]], length: int
) -> None:
    model = Model()
    for _ in range(length // 3):
        model.say(2)
    for name, number in steps:
        getattr(model, name)(number)
        assert model.page() == list(model.state.said), (name, number)


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**16 - 1)), max_size=8),
    st.integers(1, 2**16 - 1),
)
def test_an_undo_gives_back_what_was_there_and_a_redo_takes_it_again(
    steps: list[tuple[str, int]], pattern: int
) -> None:
    model = Model()
    model.say(4)
    for name, number in steps:
        getattr(model, name)(number)
    before = model.state
    model.compact(pattern)
    if model.state == before:
        return
    after = model.state
    model.undo(0)
    assert model.state.live == before.live
    model.say(1)
    model.redo(0)
    assert model.state.live[: len(after.live)] == after.live
    assert model.chain.in_force[-1].compaction_id == after.marker
    model.undo(0)
    assert model.state.live[: len(before.live)] == before.live


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**16 - 1)), min_size=1, max_size=14),
)
def test_the_quick_way_finds_what_the_long_one_finds_and_serves_all_but_deletions(
    steps: list[tuple[str, int]],
) -> None:
    model = Model()
    model.say(4)
    for name, number in steps:
        getattr(model, name)(number)
    live = [message.id for message in model.state.live]
    removals = [model.removals[made.carrier_id] for made in reversed(model.chain.in_force)]
    quick = continued(live, removals)
    assert quick is not None or "delete" in [name for name, _ in steps]
    if quick is not None:
        assert list(quick) == list(merged(live, removals))


def test_a_part_of_a_conversation_is_one() -> None:
    whole = timeline(["c", "d"], [Removal("c1", ["a", "b"], ["a", "b", "c"])])
    assert (len(whole), whole[1], whole[-1]) == (4, Place("b", "c1"), Place("d", None))
    assert list(whole[1:3]) == [Place("b", "c1"), Place("c", None)]
    assert whole.seqs() == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert whole.seqs(3) == {"c": 3, "d": 4}


def ids(places: Iterable[Place]) -> list[str | None]:
    return [place.message_id for place in places]


@pytest.mark.parametrize(
    ("live", "removed", "seen", "expected"),
    [
        (["s", "c"], ["a", "b"], ["s", "a", "b", "c"], ["s", "a", "b", "c"]),
        (["s", "new"], ["a"], ["s", "a", "gone"], ["s", "a", "new"]),
        (["new"], ["b", "a"], ["a", "b", "gone"], ["a", "b", "new"]),
        ([None, "c"], ["a"], ["a", "c"], [None, "a", "c"]),
        (["c"], ["a", "b"], [], ["a", "b", "c"]),
        (["a", "c"], ["a"], ["a", "c"], ["a", "c"]),
        ([], ["a"], ["a"], ["a"]),
    ],
    ids=[
        "where it was",
        "what followed was deleted",
        "nothing seen is left",
        "a message without an id",
        "nobody noted the order",
        "it was put back by hand",
        "nothing is live",
    ],
)
def test_a_removed_message_stands_where_it_stood(
    live: list[str | None], removed: list[str], seen: list[str], expected: list[str | None]
) -> None:
    assert ids(timeline(live, [Removal("c1", removed, seen)])) == expected


def test_what_is_there_already_is_not_shown_twice() -> None:
    places = timeline(["b", "c"], [Removal("c2", ["a"], ["a", "b"]), Removal("c1", ["a", "b"], ["a", "b"])])
    assert list(places) == [Place("a", "c2"), Place("b", None), Place("c", None)]


def link(name: str, previous: str | None, kind: str = "auto", target: str | None = None) -> Link:
    return Link(name, kind, previous, target)


LINKS = {
    made.compaction_id: made
    for made in (
        link("c1", None),
        link("c2", "c1"),
        link("u2", "c2", "undo", "c2"),
        link("u1", "u2", "undo", "c1"),
        link("r1", "u1", "redo", "c1"),
        link("r2", "r1", "redo", "c2"),
        link("c3", "u2"),
        link("lost", "erased"),
        link("loop", "loop"),
    )
}
C1, C2 = InForce("c1", "c1"), InForce("c2", "c2")


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        (None, Chain()),
        ("unknown", Chain()),
        ("c2", Chain(("c1", "c2"), (C1, C2))),
        ("u2", Chain(("c1", "c2"), (C1,), ("c2",))),
        ("u1", Chain(("c1", "c2"), (), ("c2", "c1"))),
        ("r1", Chain(("c1", "c2"), (InForce("c1", "r1"),), ("c2",))),
        ("r2", Chain(("c1", "c2"), (InForce("c1", "r1"), InForce("c2", "r2")))),
        ("c3", Chain(("c1", "c2", "c3"), (C1, InForce("c3", "c3")))),
        ("lost", Chain(("lost",), (InForce("lost", "lost"),))),
        ("loop", Chain(("loop",), (InForce("loop", "loop"),))),
    ],
)
def test_the_marker_of_a_state_decides_what_is_in_force(marker: str | None, expected: Chain) -> None:
    assert chain_of(LINKS, marker) == expected


def test_what_was_changed_or_deleted_since_is_named() -> None:
    live = [
        HumanMessage("same", id="a"),
        HumanMessage("other", id="b"),
        ToolMessage("x", tool_call_id="1", id="d"),
    ]
    assert changed_since(live, {"a": "same", "b": "text", "c": "gone"}, lambda m: str(m.content)) == [
        "b",
        "c",
    ]

"""Measuring is fair and bounded, whatever is measured."""

from __future__ import annotations

import gc

import pytest

from app.bench.timing import Contest, Effort, no_collection, traced


class Recorder:
    """Notes who was called in which order, and with what."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self._prepared = 0

    def prepare(self) -> int:
        self._prepared += 1
        return self._prepared

    async def ours(self, given: int) -> None:
        self.calls.append(("ours", given))

    async def theirs(self, given: int) -> None:
        self.calls.append(("theirs", given))

    @property
    def contest(self) -> Contest[int]:
        return Contest(self.prepare, self.ours, self.theirs)


async def test_both_get_the_same_and_take_turns_at_being_first() -> None:
    recorder = Recorder()
    result = await recorder.contest.held(Effort(rounds=4, seconds=60))
    assert result.rounds == 4
    assert [given for _, given in recorder.calls] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [who for who, _ in recorder.calls[::2]] == ["theirs", "ours", "theirs", "ours"]


async def test_when_time_is_up_three_rounds_are_enough() -> None:
    result = await Recorder().contest.held(Effort(rounds=1000, seconds=0))
    assert result.rounds == 3


async def test_a_failure_ends_the_contest_and_the_collector_works_again() -> None:
    recorder = Recorder()

    async def fails(_: int) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Contest(recorder.prepare, recorder.ours, fails).held(Effort(5, 1))
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_peak_counts_what_was_thrown_away_again_and_starts_anew_after_each_look() -> None:
    with traced() as peak:
        size = len(bytes(5_000_000))
        assert size < peak() < 2 * size
        assert peak() < size

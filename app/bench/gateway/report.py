"""The figures of the gateway for people (tables) and for programs (JSON), and what they are to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from app.bench.gateway.suite import GatewayFigures
from app.bench.goals import Goal
from app.bench.report import Row, goal_rows, section

_IDLE_BYTES = 1_000_000
_IDLE_SHARE = 0.02


def goals_of(figures: GatewayFigures) -> list[Goal]:
    """The goals that can be judged with these numbers of clients. The rate is judged as floor / service, so that less
    is better as everywhere."""
    goals = []
    for load in figures.load:
        if load.clients == 1:
            goals.append(Goal("first token, ms later than the floor's", load.first_token_later_ms, 15.0))
        if load.clients == 8:
            inverse = 1 / load.ratio if load.ratio else float("inf")
            goals.append(Goal("floor / runs per second, 8 clients", inverse, 2.0))
            goals.append(Goal("the same, at the very least", inverse, 2.5))
        if load.clients >= 32:
            goals.append(Goal(f"errors, {load.clients} clients", load.errors, 0))
    for idle in figures.idle:
        goals.append(Goal(f"bytes of an idle stream, {idle.kind}", idle.bytes_each, _IDLE_BYTES))
        goals.append(Goal(f"processors for {idle.streams} of them", idle.cpu_share, _IDLE_SHARE))
    return goals + [Goal(f"streams lost: {each.what}", each.lost, 0) for each in figures.recovery]


def document(figures: GatewayFigures, on: Mapping[str, Any]) -> dict[str, Any]:
    """Everything as JSON values; ``on`` is the machine. Ratios are service / floor."""
    return {
        "machine": dict(on),
        "seconds": figures.seconds,
        "load": [asdict(load) for load in figures.load],
        "idle": [asdict(idle) for idle in figures.idle],
        "recovery": [asdict(recovery) for recovery in figures.recovery],
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals_of(figures)],
    }


def tables(figures: GatewayFigures, on: Mapping[str, Any]) -> str:
    """The same for people; ``on`` is the machine."""
    goals = goals_of(figures)
    parts = [
        f"{on['system']}, Python {on['python']}, {on['processors']} processors,"
        f" load {on['load_average']} at the start",
        section(
            "A thread created, a run streamed, its state read: the service beside its graph", _load(figures)
        ),
        section("Streams on which nothing happens", _idle(figures)) if figures.idle else "",
        section("In the middle of runs", _recovery(figures)) if figures.recovery else "",
        section("Goals", goal_rows(goals)) if goals else "",
        f"Measured in {figures.seconds:g} s.",
    ]
    return "\n\n".join(part for part in parts if part)


def _load(figures: GatewayFigures) -> Iterator[Row]:
    rates = "runs/s", "of the graph alone", "ratio", "of all rounds"
    yield "clients", *rates, "first token, ms", "of the graph alone", "tokens", "cpu ms a run", "errors"
    for load in figures.load:
        yield (
            str(load.clients),
            f"{load.runs_per_s:.1f}",
            f"{load.floor_runs_per_s:.1f}",
            f"{load.ratio:.2f}",
            f"{load.ratios[0]:.2f}-{load.ratios[-1]:.2f}",
            f"{load.first_token_ms:.1f}",
            f"{load.floor_first_token_ms:.1f}",
            f"{load.tokens:g}",
            "?" if load.cpu_ms is None else f"{load.cpu_ms:.1f}",
            "; ".join([str(load.errors), *load.problems]),
        )


def _idle(figures: GatewayFigures) -> Iterator[Row]:
    yield "thread", "streams", "kB each", "of a processor", "heartbeats"
    for idle in figures.idle:
        share = f"{idle.cpu_share:.1%}"
        yield idle.kind, str(idle.streams), f"{idle.bytes_each / 1000:.0f}", share, str(idle.heartbeats)


def _recovery(figures: GatewayFigures) -> Iterator[Row]:
    yield "case", "streams", "events again, s", "answers again, s", "lost"
    for each in figures.recovery:
        answer = "at once" if each.answer_s is None else f"{each.answer_s:.1f}"
        yield each.what, str(each.streams), f"{each.events_s:.1f}", answer, str(each.lost)

"""The figures for people (tables) and for programs (JSON)."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from app.bench.goals import Goal, goals_of
from app.bench.storage import Turns
from app.bench.suite import Figures

Row = Sequence[str]

_PACKAGES = ("langchain", "langchain-core", "langgraph", "langgraph-checkpoint-postgres")
_LEFT_COLUMNS = frozenset({"searches for", "case", "middleware", "trigger", "keep", "mode", "thread", "goal"})


def machine() -> dict[str, Any]:
    """What the figures depend on besides the code."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "packages": {name: version(name) for name in _PACKAGES},
    }


def document(figures: Figures, on: Mapping[str, Any]) -> dict[str, Any]:
    """Everything as JSON values; ``on`` is the machine. Ratios are ours / theirs, or compacted / uncompacted."""
    return {
        "machine": dict(on),
        "seconds": figures.seconds,
        "hook": [asdict(hook) for hook in figures.hook],
        "planning": [
            {**asdict(planned), "total_ms": planned.total_ms, "peak_ratio": planned.peak_ratio}
            for planned in figures.planning
        ],
        "storage": [
            {**asdict(stored), "turn_ratio": stored.turn_ratio, "bytes_ratio": stored.bytes_ratio}
            for stored in figures.storage
        ],
        "errand": [asdict(errand) for errand in figures.errand],
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals_of(figures)],
    }


def tables(figures: Figures, on: Mapping[str, Any]) -> str:
    """The same for people; ``on`` is the machine."""
    goals = goals_of(figures)
    parts = [
        f"{on['system']}, Python {on['python']}, {on['processors']} processors, load {on['load_average']} at the start",
        section("The hook before a model call while nothing fires (ms of processor time)", _hook(figures)),
        section("A compaction without its model (ms of processor time)", _planning(figures)),
        section("Turns of a thread, compacted and not", _storage(figures)),
        section("One question, many steps with large results", _errand(figures)),
        section("Goals for 10,000 messages", goal_rows(goals)) if goals else "",
        f"Measured in {figures.seconds:g} s.",
    ]
    return "\n\n".join(part for part in parts if part)


def _hook(figures: Figures) -> Iterator[Row]:
    yield "messages", "case", "threadkeep", "langchain", "ratio", "reading the thread", "rounds"
    for hook in figures.hook:
        times = f"{hook.threadkeep_ms:.2f}", f"{hook.langchain_ms:.2f}", f"{hook.ratio:.2f}"
        yield f"{hook.messages:,}", hook.case, *times, f"{hook.reading_ms:.1f}", str(hook.rounds)


def _planning(figures: Figures) -> Iterator[Row]:
    yield "messages", "text", "divide", "render", "both", "memory / text", "summary calls"
    for planned in figures.planning:
        times = (f"{ms:.1f}" for ms in (planned.partition_ms, planned.rendering_ms, planned.total_ms))
        size = _size(planned.text_bytes)
        yield f"{planned.messages:,}", size, *times, f"{planned.peak_ratio:.2f}", str(planned.summary_calls)


def _storage(figures: Figures) -> Iterator[Row]:
    yield (
        "mode",
        "thread",
        "messages",
        "turn, ms",
        "added per turn",
        "stored so far",
        "archive",
        "compaction, ms",
    )
    for stored in figures.storage:
        mode, left, then = stored.checkpoint_mode, stored.uncompacted, stored.compacted
        yield mode, "as it is", *_turns(left), _size(stored.checkpoint_bytes), "", ""
        archive, took = _size(stored.archive_bytes), f"{stored.compaction_ms:.0f}"
        yield mode, "compacted", *_turns(then), "", archive, took
        yield mode, "ratio", "", f"{stored.turn_ratio:.2f}", f"{stored.bytes_ratio:.2f}", "", "", ""


def _turns(turns: Turns) -> Row:
    return f"{turns.messages:,}", f"{turns.turn_ms:.1f}", _size(turns.bytes_per_turn)


def _errand(figures: Figures) -> Iterator[Row]:
    sizes = "summary calls read", "mean request", "of removed, read"
    yield "middleware", "trigger", "keep", "steps", "compactions", "summary calls", *sizes
    for errand in figures.errand:
        yield (
            errand.middleware,
            errand.trigger,
            errand.keep,
            f"{errand.steps} × {_size(errand.result_chars)}",
            str(errand.compactions),
            str(errand.summary_calls),
            _size(errand.summary_chars),
            _size(errand.request_chars),
            f"{errand.read_share:.0%}",
        )


def goal_rows(goals: Sequence[Goal]) -> Iterator[Row]:
    yield "goal", "measured", "at most", ""
    for goal in goals:
        yield goal.name, f"{goal.value:.3g}", f"{goal.limit:g}", "met" if goal.met else "MISSED"


def _size(amount: float) -> str:
    """Bytes or characters in a unit that people read."""
    for unit, name in ((1_000_000, "MB"), (1_000, "kB")):
        if amount >= unit:
            return f"{amount / unit:.3g} {name}"
    return f"{amount:.0f} B"


def section(title: str, rows: Iterator[Row]) -> str:
    """Aligned columns below a title; numbers to the right."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    left = [name in _LEFT_COLUMNS for name in table[0]]
    lines = (
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in table
    )
    return "\n".join([title, *(f"  {line}" for line in lines)])

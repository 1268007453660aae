"""Listing and searching in a workspace, and where both end."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest

from app.agent.tools.search import Query
from app.agent.tools.workspace import Workspace, WorkspaceLimits, Workspaces
from app.errors import WorkspaceError

SMALL = WorkspaceLimits(max_read_bytes=200, max_entries=5, max_search_seconds=1.0)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspaces(tmp_path / "workspaces").of("t1")


@pytest.fixture
def small(tmp_path: Path) -> Workspace:
    return Workspaces(tmp_path / "small", SMALL).of("t1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workspaces" / "t1"


# Listing


async def test_a_listing_shows_folders_sizes_and_levels(workspace: Workspace) -> None:
    for path in ("b.txt", "a/one.txt", "a/deep/two.txt", "a/deep/er/three.txt"):
        await workspace.write(path, "12345")
    assert (await workspace.list(depth=2)).split("\n") == [
        "a/",
        "a/deep/",
        "a/one.txt (5 bytes)",
        "b.txt (5 bytes)",
    ]
    assert (await workspace.list("a/deep")).split("\n") == [
        "a/deep/er/",
        "a/deep/er/three.txt (5 bytes)",
        "a/deep/two.txt (5 bytes)",
    ]
    with pytest.raises(WorkspaceError, match="not a folder"):
        await workspace.list("b.txt")
    with pytest.raises(WorkspaceError, match="There is no 'nowhere'"):
        await workspace.list("nowhere")


async def test_a_listing_ends_at_its_limits(small: Workspace) -> None:
    for number in range(7):
        await small.write(f"{number}.txt", "x")
    lines = (await small.list()).split("\n")
    assert len(lines) == SMALL.max_entries + 1
    assert lines[-1] == "[there are more; name a folder or a smaller depth]"


async def test_a_listing_of_long_names_ends_at_its_bytes(small: Workspace) -> None:
    for number in range(4):
        await small.write(f"{number}{'x' * 90}", "")
    listing = await small.list()
    assert len(listing.encode()) <= SMALL.max_read_bytes + 100
    assert "there are more" in listing


async def test_names_that_are_not_text_are_listed_readably(workspace: Workspace, folder: Path) -> None:
    await workspace.write("a", "")
    os.close(os.open(os.fsencode(folder) + b"/bad\xff\nname", os.O_CREAT))
    assert await workspace.list() == "a (0 bytes)\nbad\\udcff\\nname (0 bytes)"


# Searching


async def test_a_search_finds_lines_with_their_places(workspace: Workspace) -> None:
    await workspace.write("src/a.py", "import os\n\ndef find(x):\n    return x\n")
    await workspace.write("notes.md", "How to find things\nFINDINGS\n")
    assert await workspace.search(Query("find")) == "notes.md:1: How to find things\nsrc/a.py:3: def find(x):"
    assert await workspace.search(Query("find", ignore_case=True, glob="*.md")) == (
        "notes.md:1: How to find things\nnotes.md:2: FINDINGS"
    )
    assert await workspace.search(Query(r"^def \w+\(", regex=True)) == "src/a.py:3: def find(x):"
    assert await workspace.search(Query(r"^finding", regex=True, ignore_case=True)) == "notes.md:2: FINDINGS"
    assert await workspace.search(Query("find"), "src") == "src/a.py:3: def find(x):"
    assert await workspace.search(Query("find"), "notes.md") == "notes.md:1: How to find things"
    assert await workspace.search(Query("no such thing")) == "[no match]"


@pytest.mark.parametrize("glob", ["*.py", "src/*.py", "**/*.py", "src/**", "**/src/*"])
async def test_a_glob_chooses_by_name_or_by_path(workspace: Workspace, glob: str) -> None:
    await workspace.write("src/a.py", "x")
    await workspace.write("b.txt", "x")
    assert await workspace.search(Query("x", glob=glob)) == "src/a.py:1: x"


async def test_a_text_search_takes_special_characters_as_they_are(workspace: Workspace) -> None:
    await workspace.write("x.txt", "f(a)[0]*\nfa0")
    assert await workspace.search(Query("(a)[0]*")) == "x.txt:1: f(a)[0]*"


async def test_a_search_ends_at_its_limits_and_says_so(small: Workspace) -> None:
    await small.write("x.txt", "hit\n" * 50)
    lines = (await small.search(Query("hit"))).split("\n")
    assert len(lines) == SMALL.max_entries + 1
    assert lines[-1] == "[more lines match than are shown; narrow the search]"


async def test_a_long_line_is_shown_short(workspace: Workspace) -> None:
    await workspace.write("x.txt", "hit " + "y" * 5_000)
    assert len(await workspace.search(Query("hit"))) < 400


@pytest.mark.parametrize("pattern", [r"(a|aa)+$", r"(a+)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
async def test_a_pattern_that_explodes_is_stopped_and_holds_up_nobody(small: Workspace, pattern: str) -> None:
    await small.write("a.txt", "a" * 60 + "!")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    async with asyncio.timeout(10):
        assert (
            await small.search(Query(pattern, regex=True)) == "[stopped after 1 seconds; narrow the search]"
        )
    ticking.cancel()
    assert ticks > 20


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (Query("(", regex=True), "not a regular expression"),
        (Query("(?:a?){100000000}", regex=True), "too much memory"),
        (Query("x" * 1_001), "needs 1 to 1000"),
        (Query(""), "needs 1 to 1000"),
    ],
)
async def test_a_query_that_cannot_be_used_is_refused(
    workspace: Workspace, query: Query, reason: str
) -> None:
    await workspace.write("a.txt", "a" * 60)
    with pytest.raises(WorkspaceError, match=reason):
        await workspace.search(query)


async def test_a_worker_that_cannot_be_started_is_said_and_plain_search_still_works(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await workspace.write("a.txt", "here")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkspaceError, match="search for plain text"):
        await workspace.search(Query("he.e", regex=True))
    assert await workspace.search(Query("here")) == "a.txt:1: here"


async def test_no_worker_is_left_after_a_search(workspace: Workspace) -> None:
    await workspace.write("a.txt", "a" * 60 + "!")
    before = set(psutil.Process().children())
    await workspace.search(Query("a+", regex=True))
    with pytest.raises(WorkspaceError):
        await workspace.search(Query("(", regex=True))
    assert set(psutil.Process().children()) <= before

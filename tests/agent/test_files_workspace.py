"""What the file tools do inside a workspace, and where their limits are."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.agent.tools.search import Query
from app.agent.tools.workspace import Workspace, WorkspaceLimits, Workspaces
from app.errors import WorkspaceError

SMALL = WorkspaceLimits(
    max_file_bytes=1_000,
    max_read_bytes=200,
    max_total_bytes=3_000,
    max_entries=5,
    max_files=20,
    max_search_seconds=1.0,
)


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces")


@pytest.fixture
def workspace(workspaces: Workspaces) -> Workspace:
    return workspaces.of("t1")


@pytest.fixture
def small(tmp_path: Path) -> Workspace:
    return Workspaces(tmp_path / "small", SMALL).of("t1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workspaces" / "t1"


# Reading and writing


@pytest.mark.parametrize(
    "content", ["", "x", "a\nb", "a\nb\n", "\n", "\n\n", "a\r\nb\r\n", "Grüße 世界 🎉\n", "tab\there"]
)
async def test_what_was_written_is_read_back(workspace: Workspace, content: str) -> None:
    await workspace.write("deep/in/here.txt", content)
    assert await workspace.read("deep/in/here.txt") == (content or "[the file is empty]")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
async def test_any_text_survives(workspace: Workspace, content: str) -> None:
    await workspace.write("x.txt", content)
    assert await workspace.read("x.txt") == content.removeprefix("\ufeff") or content == "\ufeff"


async def test_a_file_is_replaced_whole_and_keeps_its_permissions(workspace: Workspace, folder: Path) -> None:
    await workspace.write("run.sh", "a long first version")
    (folder / "run.sh").chmod(0o750)
    assert await workspace.write("run.sh", "short") == "Wrote run.sh (5 bytes)."
    assert (folder / "run.sh").read_text() == "short"
    assert (folder / "run.sh").stat().st_mode & 0o777 == 0o750
    assert [path.name for path in folder.iterdir()] == ["run.sh"]


async def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    workspace: Workspace, folder: Path
) -> None:
    await workspace.write("a.txt", "old")
    for content in ("bad\0", "half \ud800"):
        with pytest.raises(WorkspaceError):
            await workspace.write("a.txt", content)
    with pytest.raises(WorkspaceError, match="is a folder"):
        await workspace.write("b/c.txt", "x")
        await workspace.write("b", "x")
    assert (folder / "a.txt").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b"]


async def test_nothing_is_on_disk_before_the_first_write(workspace: Workspace, folder: Path) -> None:
    assert await workspace.list() == "[empty]"
    assert await workspace.search(Query("x")) == "[no match]"
    assert await workspace.size() == 0
    with pytest.raises(WorkspaceError, match=r"There is no 'a\.txt' in the workspace"):
        await workspace.read("a.txt")
    assert not folder.parent.exists()


async def test_lines_are_read_from_an_offset(workspace: Workspace) -> None:
    await workspace.write("x.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    assert (
        await workspace.read("x.txt", 3, 2) == "line 3\nline 4\n[lines 3 to 4 of 10; read on with offset=5]"
    )
    assert await workspace.read("x.txt", 9) == "line 9\nline 10\n[lines 9 to 10 of 10]"
    with pytest.raises(WorkspaceError, match="has only 10 lines"):
        await workspace.read("x.txt", 11)


async def test_a_long_file_is_read_whole_by_following_the_offsets(small: Workspace) -> None:
    lines = [f"{number}: {'é' * (number % 40)}" for number in range(28)]
    await small.write("x.txt", "\n".join(lines))
    read: list[str] = []
    offset = 1
    while True:
        *part, note = (await small.read("x.txt", offset)).split("\n")
        assert len("\n".join(part).encode()) <= SMALL.max_read_bytes
        read += part
        if "offset=" not in note:
            break
        offset = int(note.partition("offset=")[2].rstrip("]"))
    assert read == lines


async def test_a_line_longer_than_one_call_is_cut_and_said_to_be(small: Workspace) -> None:
    await small.write("x.txt", "é" * 300 + "\nnext")
    head, note = (await small.read("x.txt")).split("\n")
    assert head == "é" * 100
    assert note == "[line 1 of 2 is cut: 100 of its 300 characters are shown; read on with offset=2]"


@pytest.mark.parametrize(
    "data", [b"\x00\x01", b"text with \x00", b"\xff\xfe", "Größe".encode("latin-1"), "x".encode("utf-16")]
)
async def test_what_is_not_utf8_text_is_named_as_such(
    workspace: Workspace, folder: Path, data: bytes
) -> None:
    await workspace.write("other.txt", "x")
    (folder / "data.bin").write_bytes(data)
    for use in (workspace.read("data.bin"), workspace.edit("data.bin", "x", "y")):
        with pytest.raises(WorkspaceError, match="is not UTF-8 text"):
            await use
    assert await workspace.search(Query("x")) == (
        "other.txt:1: x\n[1 files that are not text or too large were passed over]"
    )


async def test_a_byte_order_mark_is_not_shown(workspace: Workspace, folder: Path) -> None:
    await workspace.write("x.txt", "x")
    (folder / "x.txt").write_bytes(b"\xef\xbb\xbfhello")
    assert await workspace.read("x.txt") == "hello"


# Editing


async def test_an_edit_changes_one_place_and_leaves_the_rest(workspace: Workspace, folder: Path) -> None:
    await workspace.write("x.py", "a = 1\nb = 2\n\tc = 3\n")
    assert await workspace.edit("x.py", "b = 2", "b = 20\nbb = 21") == "Replaced 1 place in x.py."
    assert (folder / "x.py").read_text() == "a = 1\nb = 20\nbb = 21\n\tc = 3\n"


async def test_an_edit_that_is_not_clear_changes_nothing(workspace: Workspace, folder: Path) -> None:
    await workspace.write("x.txt", "one two one")
    for old, new, reason in (
        ("one", "1", "2 times"),
        ("three", "3", "not in the file"),
        ("", "x", "is empty"),
        ("two", "two", "are the same"),
    ):
        with pytest.raises(WorkspaceError, match=reason):
            await workspace.edit("x.txt", old, new)
    assert (folder / "x.txt").read_text() == "one two one"
    assert await workspace.edit("x.txt", "one", "1", everywhere=True) == "Replaced 2 places in x.txt."
    assert (folder / "x.txt").read_text() == "1 two 1"


async def test_windows_line_ends_are_matched_and_kept(workspace: Workspace, folder: Path) -> None:
    await workspace.write("x.txt", "a\r\nb\r\nc\r\n")
    await workspace.edit("x.txt", "a\nb\n", "A\nB\nB\n")
    assert (folder / "x.txt").read_bytes() == b"A\r\nB\r\nB\r\nc\r\n"


async def test_edits_of_one_file_at_once_lose_nothing(workspaces: Workspaces) -> None:
    await workspaces.of("t1").write("x.txt", "".join(f"<{number}>" for number in range(30)))
    await asyncio.gather(
        *(workspaces.of("t1").edit("x.txt", f"<{number}>", f"[{number}]") for number in range(30))
    )
    assert await workspaces.of("t1").read("x.txt") == "".join(f"[{number}]" for number in range(30))


async def test_an_edit_that_is_cancelled_is_whole_or_not_there_and_holds_up_nobody(
    workspace: Workspace, folder: Path
) -> None:
    await workspace.write("x.txt", "a" * 100_000)
    edit = asyncio.create_task(workspace.edit("x.txt", "a" * 100_000, "b" * 100_000))
    await asyncio.sleep(0)
    edit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await edit
    await workspace.write("y.txt", "z")
    assert (folder / "x.txt").read_text() in ("a" * 100_000, "b" * 100_000)
    assert await workspace.read("y.txt") == "z"


# Limits


async def test_a_file_larger_than_the_limit_is_neither_written_nor_read(
    small: Workspace, tmp_path: Path
) -> None:
    with pytest.raises(WorkspaceError, match="1001 bytes, at most 1000"):
        await small.write("x.txt", "x" * 1_001)
    await small.write("x.txt", "x" * 1_000)
    with pytest.raises(WorkspaceError, match="at most 1000"):
        await small.edit("x.txt", "x" * 1_000, "x" * 1_001)
    (tmp_path / "small" / "t1" / "big.txt").write_text("y" * 1_001)
    with pytest.raises(WorkspaceError, match="too large: 1001 bytes"):
        await small.read("big.txt")
    assert await small.read("x.txt", limit=1) != ""


async def test_the_workspace_as_a_whole_has_a_limit(small: Workspace) -> None:
    for name in ("a", "b", "c"):
        await small.write(name, "x" * 1_000)
    with pytest.raises(WorkspaceError, match="The workspace is full: 3000 of 3000 bytes"):
        await small.write("d", "x")
    await small.write("a", "y" * 900)
    await small.write("d", "x" * 100)
    assert await small.size() == 3_000


async def test_many_files_and_folders_have_a_limit(small: Workspace) -> None:
    for number in range(20):
        await small.write(str(number), "")
    with pytest.raises(WorkspaceError, match="holds 20 files and folders"):
        await small.write("one/more", "")
    await small.write("3", "still writable")


async def test_writes_at_once_do_not_pass_the_limit_together(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path / "at-once", SMALL)
    writes = (workspaces.of("t1").write(f"{number}", "x" * 1_000) for number in range(10))
    done = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(not isinstance(result, WorkspaceError) for result in done) == 3
    assert await workspaces.size("t1") == 3_000


async def test_a_full_disk_is_one_clear_sentence(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's answer is made up here: filling a disk for a test is not an option."""

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device", "/host/path")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkspaceError, match=r"^'a\.txt' cannot be written: the disk is full\.$"):
        await workspace.write("a.txt", "x")
    assert await workspace.list() == "[empty]"


# Threads


async def test_the_size_of_a_thread_is_that_of_its_files(workspaces: Workspaces) -> None:
    await workspaces.of("a").write("x/y.txt", "12345")
    await workspaces.of("a").write("z.txt", "é")
    assert await workspaces.size("a") == 7
    assert await workspaces.size("never-used") == 0


async def test_deleting_a_thread_removes_its_files_and_no_others(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    await workspaces.of("a").write("x/y.txt", "1")
    await workspaces.of("b").write("y.txt", "1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    (tmp_path / "workspaces" / "a" / "link").symlink_to(outside)
    await workspaces.delete("a")
    await workspaces.delete("a")
    await workspaces.delete("never-used")
    assert await workspaces.of("a").list() == "[empty]"
    assert await workspaces.of("b").read("y.txt") == "1"
    assert (outside / "kept.txt").read_text() == "kept"
    assert list((tmp_path / "workspaces" / ".removed").iterdir()) == []


async def test_what_a_removal_left_behind_goes_with_the_next(workspaces: Workspaces, tmp_path: Path) -> None:
    left = tmp_path / "workspaces" / ".removed" / "0123" / "deep"
    left.mkdir(parents=True)
    (left / "x.txt").write_text("x")
    await workspaces.of("a").write("x.txt", "x")
    await workspaces.delete("a")
    assert not left.exists()


async def test_a_thread_folder_that_is_a_link_is_removed_without_what_it_points_to(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    (tmp_path / "workspaces").mkdir()
    (tmp_path / "workspaces" / "a").symlink_to(outside)
    await workspaces.delete("a")
    assert (outside / "kept.txt").read_text() == "kept"
    assert not (tmp_path / "workspaces" / "a").is_symlink()


async def test_two_deletions_at_once_are_both_fine(workspaces: Workspaces) -> None:
    for number in range(50):
        await workspaces.of("a").write(f"{number}.txt", "x")
    await workspaces.of("b").write("x.txt", "x")
    await asyncio.gather(*(workspaces.delete(name) for name in ("a", "b", "a", "b")))
    assert await workspaces.size("a") + await workspaces.size("b") == 0

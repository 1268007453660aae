"""No path, link or trick leads out of a thread's workspace, and nothing of the host shows in what the model reads."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.agent.tools.search import Query
from app.agent.tools.workspace import Workspace, Workspaces
from app.errors import InvalidInput, WorkspaceError

SECRET = "the secret of the house next door"
OTHER = "what another thread wrote"


@dataclass(frozen=True)
class House:
    """A workspace on disk with a neighbour, and something outside that must stay untouched and unread."""

    root: Path
    outside: Path
    inside: Path
    workspaces: Workspaces

    @property
    def workspace(self) -> Workspace:
        return self.workspaces.of("mine")

    def untouched(self) -> bool:
        return {path.name: path.read_text() for path in self.outside.iterdir()} == {"secret.txt": SECRET}


@pytest.fixture
async def house(tmp_path: Path) -> House:
    root, outside = tmp_path / "workspaces", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    workspaces = Workspaces(root)
    await workspaces.of("mine").write("notes/a.txt", "mine")
    await workspaces.of("other").write("b.txt", OTHER)
    return House(root, outside, root / "mine", workspaces)


def every_use(workspace: Workspace, path: str) -> list[Callable[[], Awaitable[str]]]:
    return [
        lambda: workspace.read(path),
        lambda: workspace.write(path, "changed"),
        lambda: workspace.edit(path, "secret", "public"),
        lambda: workspace.list(path),
        lambda: workspace.search(Query("e"), path),
        lambda: workspace.search(Query("secret", regex=True), path),
    ]


async def use_all(house: House, path: str) -> list[str]:
    """Uses a path in every way; what came back, errors included."""
    said: list[str] = []
    for use in every_use(house.workspace, path):
        try:
            said.append(await use())
        except WorkspaceError as error:
            said.append(error.detail)
    return said


def assert_kept_in(house: House, said: list[str]) -> None:
    assert house.untouched()
    assert (house.root / "other" / "b.txt").read_text() == OTHER
    assert sorted(path.name for path in house.root.iterdir()) == ["mine", "other"]
    for text in said:
        assert SECRET not in text
        assert OTHER not in text
        assert str(house.root.parent) not in text
        assert "root:" not in text


@pytest.mark.parametrize(
    "path",
    [
        "../other/b.txt",
        "notes/../../other/b.txt",
        "..",
        "../",
        "./..",
        "notes/..",
        "notes/../a.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/../etc/passwd",
        "/proc/self/environ",
        "a\0b",
        "notes/a.txt\0.png",
        "line\nbreak",
        "bell\x07",
        "half\ud800pair",
        "x" * 256,
        "é" * 128,
        "x/" * 33 + "y",
        "y" * 2_000,
    ],
)
async def test_a_path_that_names_nothing_inside_is_refused_in_every_use(house: House, path: str) -> None:
    for use in every_use(house.workspace, path):
        with pytest.raises(WorkspaceError) as caught:
            await use()
        assert str(house.root.parent) not in caught.value.detail
        assert caught.value.detail.isprintable()
    assert_kept_in(house, [])


async def test_an_absolute_path_of_the_workspace_itself_is_refused_too(house: House) -> None:
    with pytest.raises(WorkspaceError, match="absolute path"):
        await house.workspace.read(str(house.inside / "notes" / "a.txt"))


@pytest.mark.parametrize("path", [".", "", "/", "./", "//"])
async def test_the_workspace_itself_can_be_listed_but_is_no_file(house: House, path: str) -> None:
    assert await house.workspace.list(path) == "notes/\nnotes/a.txt (4 bytes)"
    for use in (house.workspace.read(path), house.workspace.write(path, "x")):
        with pytest.raises(WorkspaceError, match="names a folder"):
            await use


@pytest.mark.parametrize("path", ["./notes/a.txt", "notes//a.txt", "notes/./a.txt"])
async def test_superfluous_dots_and_slashes_are_harmless(house: House, path: str) -> None:
    assert await house.workspace.read(path) == "mine"


@pytest.mark.parametrize("path", ["C:\\Windows\\x", "~/x", "..\\x", "...", "$HOME", "-rf", "%2e%2e", "a b"])
async def test_what_only_other_systems_understand_is_an_ordinary_name(house: House, path: str) -> None:
    await house.workspace.write(path, "plain")
    assert await house.workspace.read(path) == "plain"
    assert_kept_in(house, [])


async def test_links_are_shown_but_lead_nowhere(house: House) -> None:
    (house.inside / "file-link").symlink_to(house.outside / "secret.txt")
    (house.inside / "folder-link").symlink_to(house.outside)
    (house.inside / "inner-link").symlink_to(house.inside / "notes" / "a.txt")
    (house.inside / "loop").symlink_to("loop")
    (house.inside / "dangling").symlink_to(house.outside / "new.txt")
    said: list[str] = []
    for path in ("file-link", "folder-link", "folder-link/secret.txt", "inner-link", "loop", "dangling", "."):
        said += await use_all(house, path)
    assert_kept_in(house, said)
    assert "file-link (not a regular file, cannot be used)" in await house.workspace.list()
    with pytest.raises(WorkspaceError, match="links are not followed"):
        await house.workspace.read("folder-link/secret.txt")
    with pytest.raises(WorkspaceError, match="links are not followed"):
        await house.workspace.write("dangling", "x")


async def test_a_workspace_that_is_itself_a_link_is_not_used(house: House) -> None:
    (house.root / "mine").rename(house.root.parent / "elsewhere")
    (house.root / "mine").symlink_to(house.outside)
    said = await use_all(house, "secret.txt")
    said += await use_all(house, ".")
    assert_kept_in(house, said)


async def test_a_file_is_not_a_folder_on_the_way(house: House) -> None:
    for use in every_use(house.workspace, "notes/a.txt/deeper.txt"):
        with pytest.raises(WorkspaceError):
            await use()
    assert await house.workspace.read("notes/a.txt") == "mine"


async def test_pipes_sockets_and_folders_are_refused_without_waiting(house: House) -> None:
    os.mkfifo(house.inside / "pipe")
    here = os.open(house.inside, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(f"/proc/self/fd/{here}/socket")
            async with asyncio.timeout(10):
                for path in ("pipe", "socket", "notes"):
                    with pytest.raises(WorkspaceError):
                        await house.workspace.read(path)
                    with pytest.raises(WorkspaceError):
                        await house.workspace.write(path, "x")
                assert "a.txt:1: mine" in await house.workspace.search(Query("mine"))
        finally:
            os.close(here)
    assert await house.workspace.read("notes/a.txt") == "mine"


async def test_a_folder_swapped_for_a_link_at_any_moment_leads_nowhere(house: House) -> None:
    """Another process swaps the folder for a link to the outside as fast as it can, while files are used."""
    swap = house.inside / "swap"
    done = threading.Event()
    swaps = 0

    def keep_swapping() -> None:
        nonlocal swaps
        while not done.is_set():
            with suppress(OSError):  # the workspace writes there too: whoever comes first
                shutil.rmtree(swap, ignore_errors=True)
                swap.unlink(missing_ok=True)
                swap.symlink_to(house.outside)
                swaps += 1
                swap.unlink()
                swap.mkdir()
                (swap / "secret.txt").write_text("harmless")

    swapper = threading.Thread(target=keep_swapping)
    swapper.start()
    said: list[str] = []
    try:
        for _ in range(40):
            said += await use_all(house, "swap/secret.txt")
            said += await use_all(house, "swap")
    finally:
        done.set()
        swapper.join()
    assert swaps > 100
    assert house.untouched()
    assert not any(SECRET in text for text in said)


NAMES = st.sampled_from(
    [
        "..",
        ".",
        "",
        "notes",
        "a.txt",
        "link",
        "folder-link",
        "secret.txt",
        "other",
        "b.txt",
        "outside",
        "x" * 300,
    ]
) | st.text(max_size=5)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, max_size=6), lead=st.sampled_from(["", "/", "./", "../"]))
async def test_no_composed_path_leads_out(house: House, names: list[str], lead: str) -> None:
    for name, target in (("link", "secret.txt"), ("folder-link", ".")):
        if not (house.inside / name).is_symlink():
            (house.inside / name).symlink_to(house.outside / target)
    assert_kept_in(house, await use_all(house, lead + "/".join(names)))


@pytest.mark.parametrize(
    "thread_id",
    ["", ".", "..", "../mine", "a/b", "a b", "x" * 65, "ü", "a\n", "a\0", ".removed", "mine.1", "\u0661"],
)
async def test_only_a_plain_thread_id_becomes_a_folder(house: House, thread_id: str) -> None:
    with pytest.raises(InvalidInput, match="thread_id"):
        house.workspaces.of(thread_id)
    with pytest.raises(InvalidInput):
        await house.workspaces.size(thread_id)
    with pytest.raises(InvalidInput):
        await house.workspaces.delete(thread_id)
    assert_kept_in(house, [])


async def test_threads_whose_ids_differ_in_case_never_share_a_folder(house: House) -> None:
    await house.workspaces.of("Mine").write("x.txt", "upper")
    folders = {path.name.lower() for path in house.root.iterdir()}
    assert len(folders) == 3
    with pytest.raises(WorkspaceError):
        await house.workspace.read("x.txt")

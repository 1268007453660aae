"""Files of the operator beside a workspace: read, never changed, and no way out of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI

from app.agent.tools import Mount, WorkspaceLimits, Workspaces, file_tools
from app.agent.tools.search import Query
from app.errors import WorkspaceError
from tests.support.answers import Reply
from tests.support.provider import Provider

SECRET = "the secret of the house next door"
LIMITS = WorkspaceLimits(max_file_bytes=5_000, max_read_bytes=400, max_entries=20)
AT = "/mnt/skills"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    (root / "tidy").mkdir(parents=True)
    (root / "tidy" / "SKILL.md").write_text("Sort them.\nThen count them.\n")
    (root / "tidy" / "more.md").write_text("More of it.\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    return root


def stamp(path: str) -> dict[str, Any]:
    return {"stamped": path} if path.endswith("SKILL.md") else {}


@pytest.fixture
def mount(root: Path) -> Mount:
    return Mount(AT, root, LIMITS, stamp)


class Agent:
    def __init__(self, provider: Provider, folder: Path, mount: Mount) -> None:
        self._provider = provider
        model = ChatOpenAI(model="stand-in", base_url=provider.base_url, api_key="unused", max_retries=0)
        tools = file_tools(Workspaces(folder / "workspaces", LIMITS), [mount])
        self._graph = create_agent(model, tools=tools)

    async def use(self, name: str, args: Mapping[str, Any]) -> ToolMessage:
        self._provider.sequence(Reply(None, tool_calls=[self._provider.call(name, args)]), Reply("done"))
        state = await self._graph.ainvoke(
            {"messages": [("user", "go")]}, {"configurable": {"thread_id": "t1"}}
        )
        (result,) = [message for message in state["messages"] if isinstance(message, ToolMessage)]
        return result


@pytest.fixture
def agent(provider: Provider, tmp_path: Path, mount: Mount) -> Agent:
    return Agent(provider, tmp_path, mount)


async def test_an_agent_reads_lists_and_searches_below_the_mount(agent: Agent) -> None:
    for name, args, expected in (
        ("read_file", {"path": f"{AT}/tidy/SKILL.md"}, "Sort them.\nThen count them.\n"),
        ("read_file", {"path": f"{AT}/tidy/SKILL.md", "offset": 2}, "Then count them.\n[lines 2 to 2 of 2]"),
        (
            "list_files",
            {"path": AT},
            f"{AT}/tidy/\n{AT}/tidy/SKILL.md (28 bytes)\n{AT}/tidy/more.md (12 bytes)",
        ),
        (
            "list_files",
            {"path": f"{AT}/tidy/", "depth": 1},
            f"{AT}/tidy/SKILL.md (28 bytes)\n{AT}/tidy/more.md (12 bytes)",
        ),
        ("search_files", {"query": "count", "path": AT}, f"{AT}/tidy/SKILL.md:2: Then count them."),
        ("search_files", {"query": "of", "path": f"{AT}/tidy/more.md"}, f"{AT}/tidy/more.md:1: More of it."),
        ("search_files", {"query": "count", "path": AT, "glob": "*.txt"}, "[no match]"),
        ("list_files", {}, "[empty]"),
        ("search_files", {"query": "count"}, "[no match]"),
    ):
        result = await agent.use(name, args)
        assert (result.text, result.status) == (expected, "success")


async def test_what_the_mount_says_of_a_file_is_metadata_of_the_result(agent: Agent) -> None:
    path = f"{AT}//tidy/SKILL.md"
    result = await agent.use("read_file", {"path": path})
    assert result.additional_kwargs == {"stamped": path}
    assert (result.name, result.status) == ("read_file", "success")
    assert (await agent.use("read_file", {"path": f"{AT}/tidy/more.md"})).additional_kwargs == {}
    assert (await agent.use("read_file", {"path": f"{AT}/nope/SKILL.md"})).additional_kwargs == {}
    assert (await agent.use("list_files", {"path": f"{AT}/tidy"})).additional_kwargs == {}
    await agent.use("write_file", {"path": "tidy/SKILL.md", "content": "Mine."})
    assert (await agent.use("read_file", {"path": "tidy/SKILL.md"})).additional_kwargs == {}


@pytest.mark.parametrize("path", [f"{AT}/tidy/SKILL.md", f"{AT}/new.md", AT, f"{AT}/", f"{AT}/../skills/x"])
async def test_nothing_below_the_mount_is_changed(agent: Agent, root: Path, path: str) -> None:
    before = {file: file.read_text() for file in root.rglob("*") if file.is_file()}
    for name, args in (
        ("write_file", {"path": path, "content": "Mine."}),
        ("edit_file", {"path": path, "old_text": "Sort", "new_text": "Mix"}),
    ):
        result = await agent.use(name, args)
        assert result.status == "error"
        assert f"is read-only: what is below {AT} belongs to whoever runs this service" in result.text
    assert {file: file.read_text() for file in root.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (f"{AT}/nope.md", f"There is no '{AT}/nope.md'."),
        (f"{AT}/tidy", f"'{AT}/tidy' is a folder, not a file."),
        (AT, f"'{AT}' names a folder, not a file."),
        (f"{AT}/", f"'{AT}/' names a folder, not a file."),
        (f"{AT}/..", "leads upwards"),
        (f"{AT}/../../outside/secret.txt", "leads upwards"),
        (f"{AT}/tidy/../../outside/secret.txt", "leads upwards"),
        (f"/mnt/../mnt{AT}", "is an absolute path"),
        ("/mnt", "is an absolute path"),
        ("/mnt/skillsX/tidy/SKILL.md", "is an absolute path"),
        ("/MNT/skills/tidy/SKILL.md", "is an absolute path"),
        ("/etc/passwd", "is an absolute path"),
        (f"{AT}/tidy\0/SKILL.md", "control character"),
        (f"{AT}/" + "x/" * 33 + "y", "nested too deeply"),
        (AT[1:], "There is no 'mnt/skills' in the workspace."),
    ],
)
async def test_what_goes_wrong_is_said_without_a_word_on_the_host(
    agent: Agent, tmp_path: Path, path: str, sentence: str
) -> None:
    result = await agent.use("read_file", {"path": path})
    assert result.status == "error"
    assert sentence in result.text
    assert str(tmp_path) not in result.text


async def test_links_below_the_mount_lead_nowhere(root: Path, tmp_path: Path, mount: Mount) -> None:
    (root / "file-link").symlink_to(tmp_path / "outside" / "secret.txt")
    (root / "folder-link").symlink_to(tmp_path / "outside")
    (root / "tidy" / "inner-link").symlink_to(root / "tidy" / "SKILL.md")
    for path in ("file-link", "folder-link", "folder-link/secret.txt", "tidy/inner-link"):
        with pytest.raises(WorkspaceError):
            await mount.read(f"{AT}/{path}")
    assert SECRET not in await mount.search(Query("e"), AT)
    assert f"{AT}/file-link (not a regular file, cannot be used)" in await mount.list(AT)


NAMES = st.sampled_from(["..", ".", "", "mnt", "skills", "tidy", "SKILL.md", "link", "outside", "secret.txt"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, max_size=7), lead=st.sampled_from(["/", f"{AT}/", "//mnt/skills/", ""]))
async def test_no_composed_path_leads_out(
    root: Path, tmp_path: Path, mount: Mount, names: list[str], lead: str
) -> None:
    if not (root / "link").is_symlink():
        (root / "link").symlink_to(tmp_path / "outside")
    path = lead + "/".join(names)
    for use in (mount.read(path), mount.list(path, 5), mount.search(Query("secret"), path)):
        try:
            said = await use
        except WorkspaceError as error:
            said = error.detail
        assert SECRET not in said
        assert str(tmp_path) not in said
    assert not mount.holds(path) or path.startswith("/")


async def test_names_that_begin_with_a_dot_do_not_exist_below_the_mount(root: Path, mount: Mount) -> None:
    for path in (".git/config", ".env", "tidy/.secret", "tidy/.cache/a.md"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(SECRET)
        for use in (mount.read(f"{AT}/{path}"), mount.search(Query("secret"), f"{AT}/{path}")):
            with pytest.raises(WorkspaceError, match="There is no"):
                await use
    assert await mount.search(Query("secret"), AT) == "[no match]"
    assert "/." not in await mount.list(AT, 5)
    with pytest.raises(WorkspaceError, match="There is no"):
        await mount.list(f"{AT}/.git")


async def test_the_limits_of_a_workspace_hold_below_the_mount(root: Path, mount: Mount) -> None:
    (root / "long.md").write_text("".join(f"line {number}\n" for number in range(100)))
    (root / "huge.md").write_text("x" * 5_001)
    assert "read on with offset=" in await mount.read(f"{AT}/long.md")
    with pytest.raises(WorkspaceError, match=rf"'{AT}/huge\.md' is too large: 5001 bytes, at most 5000"):
        await mount.read(f"{AT}/huge.md")
    for number in range(30):
        (root / f"{number}.md").touch()
    assert "there are more" in await mount.list(AT)


async def test_a_mount_without_a_folder_is_empty(tmp_path: Path) -> None:
    mount = Mount(AT, tmp_path / "nowhere", LIMITS, stamp)
    assert await mount.list(AT) == "[empty]"
    assert await mount.search(Query("x"), AT) == "[no match]"
    with pytest.raises(WorkspaceError, match=rf"There is no '{AT}/a\.md'\."):
        await mount.read(f"{AT}/a.md")

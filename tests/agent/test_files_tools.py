"""The file tools as an agent calls them: in a real graph, by a model that is scripted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI

from app.agent.tools.files import file_tools
from app.agent.tools.workspace import WorkspaceLimits, Workspaces
from tests.support.answers import Reply
from tests.support.provider import Provider


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces", WorkspaceLimits(max_total_bytes=1_000))


class Agent:
    """An agent with the file tools on a thread."""

    def __init__(self, provider: Provider, workspaces: Workspaces) -> None:
        self._provider = provider
        model = ChatOpenAI(model="stand-in", base_url=provider.base_url, api_key="unused", max_retries=0)
        self._graph = create_agent(model, tools=file_tools(workspaces))

    async def use(
        self, *calls: tuple[str, Mapping[str, Any]], thread_id: str | None = "t1"
    ) -> list[ToolMessage]:
        """The results of tool calls that the model makes in one message."""
        self._provider.sequence(
            Reply(None, tool_calls=[self._provider.call(*call) for call in calls]), Reply("done")
        )
        config = {"configurable": {"thread_id": thread_id}} if thread_id else {}
        state = await self._graph.ainvoke({"messages": [("user", "go")]}, config)
        assert state["messages"][-1].text == "done"
        return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.fixture
def agent(provider: Provider, workspaces: Workspaces) -> Agent:
    return Agent(provider, workspaces)


async def test_an_agent_writes_edits_lists_searches_and_reads(agent: Agent) -> None:
    for call, expected in (
        (
            ("write_file", {"path": "notes/plan.md", "content": "1. draft\n2. send\n"}),
            "Wrote notes/plan.md (17 bytes).",
        ),
        (
            ("edit_file", {"path": "notes/plan.md", "old_text": "send", "new_text": "check"}),
            "Replaced 1 place in notes/plan.md.",
        ),
        (("list_files", {}), "notes/\nnotes/plan.md (18 bytes)"),
        (("search_files", {"query": "check"}), "notes/plan.md:2: 2. check"),
        (("read_file", {"path": "notes/plan.md", "offset": 2}), "2. check\n[lines 2 to 2 of 2]"),
        (("read_file", {"path": "notes/plan.md", "offset": 0}), "1. draft\n2. check\n"),
    ):
        (result,) = await agent.use(call)
        assert (result.text, result.status) == (expected, "success")


async def test_each_thread_has_files_of_its_own(agent: Agent) -> None:
    await agent.use(("write_file", {"path": "x.txt", "content": "of one"}), thread_id="one")
    (result,) = await agent.use(("read_file", {"path": "x.txt"}), thread_id="two")
    assert result.status == "error"
    (result,) = await agent.use(("list_files", {"thread_id": "one"}), thread_id="two")
    assert result.text == "[empty]"


@pytest.mark.parametrize(
    ("name", "args", "sentence"),
    [
        ("read_file", {"path": "/etc/passwd"}, "'/etc/passwd' is an absolute path."),
        ("read_file", {"path": "../t2/x.txt"}, "'../t2/x.txt' leads upwards."),
        ("read_file", {"path": "missing.txt"}, "There is no 'missing.txt' in the workspace."),
        ("write_file", {"path": "x.txt", "content": "x" * 2_000}, "The workspace is full"),
        ("edit_file", {"path": "missing.txt", "old_text": "a", "new_text": "b"}, "There is no 'missing.txt'"),
        ("search_files", {"query": "(", "regex": True}, "not a regular expression"),
        ("list_files", {"path": "missing"}, "There is no 'missing'"),
        ("list_files", {"depth": 0}, "greater than or equal to 1"),
        ("read_file", {}, "path: Field required"),
        ("write_file", {"path": "x.txt", "content": {"not": "text"}}, "valid string"),
    ],
)
async def test_what_goes_wrong_is_a_tool_result_and_the_run_goes_on(
    agent: Agent, tmp_path: Path, name: str, args: Mapping[str, Any], sentence: str
) -> None:
    (result,) = await agent.use((name, args))
    assert result.status == "error"
    assert sentence in result.text
    assert str(tmp_path) not in result.text


async def test_one_failing_call_does_not_spoil_the_others(agent: Agent) -> None:
    results = await agent.use(
        ("write_file", {"path": "a.txt", "content": "a"}),
        ("read_file", {"path": "/nope"}),
        ("write_file", {"path": "b.txt", "content": "b"}),
    )
    assert [result.status for result in results] == ["success", "error", "success"]


async def test_without_a_thread_there_is_no_workspace(agent: Agent, tmp_path: Path) -> None:
    (result,) = await agent.use(("write_file", {"path": "a.txt", "content": "a"}), thread_id=None)
    assert (result.text, result.status) == (
        "There is no workspace here: the run belongs to no thread.",
        "error",
    )
    assert not (tmp_path / "workspaces").exists()


async def test_an_unusable_thread_id_is_refused(agent: Agent) -> None:
    (result,) = await agent.use(("list_files", {}), thread_id="../up")
    assert result.status == "error"
    assert "thread_id" in result.text


async def test_the_model_is_told_of_paths_only(agent: Agent, provider: Provider) -> None:
    await agent.use(("list_files", {}))
    tools = {tool["function"]["name"]: tool["function"] for tool in provider.chats[0].body["tools"]}
    assert list(tools) == ["read_file", "write_file", "edit_file", "list_files", "search_files"]
    assert set(tools["read_file"]["parameters"]["properties"]) == {"path", "offset", "limit"}
    assert set(tools["search_files"]["parameters"]["properties"]) == {
        "query",
        "path",
        "glob",
        "regex",
        "ignore_case",
    }
    assert "thread" not in json.dumps(tools)
    assert all(tool["description"] for tool in tools.values())

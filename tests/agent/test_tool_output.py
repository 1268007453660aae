"""Long results of tools: what stays in the conversation, and how the agent reads the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from langgraph.types import Command

from app.agent.middleware.tool_output import ToolOutputMiddleware
from app.agent.tool_output import ToolOutput
from app.agent.tools import WorkspaceLimits, Workspaces, file_tools
from app.config import ToolOutputSettings
from tests.support.answers import Reply
from tests.support.provider import Provider

SETTINGS = ToolOutputSettings(max_chars=1000, head_chars=300, tail_chars=200)
LINES = "\n".join(f"line {number}" for number in range(1, 1001))
IMAGE = {"type": "image", "base64": "A" * 5000, "mime_type": "image/png"}
PATH = re.compile(r"\.tool-output/[\w-]+\.txt")


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces", WorkspaceLimits(max_total_bytes=100_000))


class Agent:
    """An agent with the file tools and one called ``produce``, whose result the test decides."""

    def __init__(self, provider: Provider, workspaces: Workspaces) -> None:
        self.provider = provider
        self.result: Any = ""
        self._model = ChatOpenAI(model="m", base_url=provider.base_url, api_key="unused", max_retries=0)
        self._files = file_tools(workspaces)
        self._middleware = ToolOutputMiddleware(ToolOutput(SETTINGS, workspaces), self._files)

    async def _produce(self) -> Any:
        """Produce something."""
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def tool(self, name: str = "produce", response_format: str = "content") -> BaseTool:
        tool = StructuredTool.from_function(
            coroutine=self._produce,
            name=name,
            description="Produce something.",
            response_format=response_format,
        )
        tool.handle_tool_error = True
        return tool

    async def use(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        tools: list[BaseTool] | None = None,
        **config: Any,
    ) -> ToolMessage:
        """The result of one call."""
        call = self.provider.call(name, args or {})
        self.provider.sequence(Reply(None, tool_calls=[call]), Reply("done"))
        everything = [*self._files, self.tool()] if tools is None else tools
        graph = create_agent(self._model, everything, middleware=[self._middleware])
        configurable = {"thread_id": "t1", **config}
        state = await graph.ainvoke({"messages": [("user", "go")]}, {"configurable": configurable})
        return next(message for message in state["messages"] if isinstance(message, ToolMessage))

    async def produced(self, result: Any, **options: Any) -> ToolMessage:
        self.result = result
        return await self.use("produce", **options)


@pytest.fixture
def agent(provider: Provider, workspaces: Workspaces) -> Agent:
    return Agent(provider, workspaces)


def path_in(message: ToolMessage) -> str:
    found = PATH.search(message.text)
    assert found, message.text
    return found[0]


async def test_a_result_within_the_limit_is_left_alone(agent: Agent) -> None:
    assert (await agent.produced("x" * 1000)).content == "x" * 1000


async def test_a_longer_one_keeps_head_size_path_and_tail(agent: Agent) -> None:
    message = await agent.produced(LINES)
    assert message.text.startswith("line 1\nline 2\n")
    assert message.text.endswith("\nline 999\nline 1000")
    assert f"of {len(LINES)} characters are left out" in message.text
    assert "(1000 lines)" in message.text
    assert len(message.text) < 1000
    assert re.fullmatch(r"\.tool-output/produce-call_1-[0-9a-f]{8}\.txt", path_in(message))


async def test_the_agent_reads_on_where_the_head_ended_until_it_has_read_all(agent: Agent) -> None:
    message = await agent.produced(LINES)
    head, _, _ = message.text.partition("\n[…")
    next_line = int(re.search(r"read on from line (\d+)", message.text)[1])  # type: ignore[index]
    assert head.splitlines()[-1] in (
        f"line {next_line - 1}",
        f"line {next_line}"[: len(head.splitlines()[-1])],
    )
    read = await agent.use("read_file", {"path": path_in(message), "offset": next_line})
    assert read.text.startswith(f"line {next_line}\n")
    assert "line 1000" in read.text
    found = await agent.use("search_files", {"query": "line 567", "path": ".tool-output"})
    assert found.text == f"{path_in(message)}:567: line 567"


async def test_what_is_read_from_the_file_does_not_become_a_file_again(agent: Agent) -> None:
    message = await agent.produced(LINES)
    read = await agent.use("read_file", {"path": path_in(message)})
    assert read.content == LINES
    listed = await agent.use("list_files", {"path": ".tool-output"})
    assert len(listed.text.splitlines()) == 1


async def test_somebody_elses_read_file_is_not_spared(agent: Agent) -> None:
    agent.result = LINES
    message = await agent.use("read_file", tools=[agent.tool("read_file")])
    assert path_in(message)


async def test_a_line_too_long_for_one_look_is_broken_in_the_file_and_all_of_it_readable(
    agent: Agent,
) -> None:
    text = "".join(f"<{number:05}>" for number in range(8_000))
    message = await agent.produced(text)
    assert "Longer lines are broken there" in message.text
    found = await agent.use("search_files", {"query": "<07000>"})
    assert found.text.startswith(path_in(message))
    pieces = ""
    for offset in range(1, 40, 10):
        page = await agent.use("read_file", {"path": path_in(message), "offset": offset, "limit": 10})
        pieces += page.text.partition("\n[lines")[0]
        if offset + 9 >= int(re.search(r"\((\d+) lines\)", message.text)[1]):  # type: ignore[index]
            break
    assert pieces.replace("\n", "") == text


async def test_an_error_stays_one_and_begins_with_its_text(agent: Agent) -> None:
    message = await agent.produced(ToolException("Disk failed: " + LINES))
    assert message.status == "error"
    assert message.text.startswith("Disk failed: line 1\n")
    assert path_in(message)


async def test_images_stay_and_only_the_text_is_shortened(agent: Agent) -> None:
    message = await agent.produced(
        [{"type": "text", "text": LINES}, IMAGE, {"type": "text", "text": "the end"}]
    )
    text, image = message.content
    assert image == IMAGE
    assert isinstance(text, dict)
    assert text["text"].endswith("\nthe end")
    assert path_in(message)


async def test_a_large_image_alone_is_no_text(agent: Agent) -> None:
    assert (await agent.produced([IMAGE])).content == [IMAGE]


async def test_many_small_texts_count_together(agent: Agent) -> None:
    message = await agent.produced([{"type": "text", "text": f"part {number}"} for number in range(500)])
    assert len(message.content) == 1
    assert path_in(message)


async def test_name_call_id_artifact_and_metadata_are_kept(agent: Agent) -> None:
    given = ToolMessage(
        LINES,
        id="m1",
        name="produce",
        tool_call_id="call_1",
        artifact={"delegation_entry": {"id": "call_1"}},
        additional_kwargs={"mine": 1},
        response_metadata={"also": 2},
    )
    message = await agent.produced(given)
    kept = {name: getattr(message, name) for name in ("id", "name", "tool_call_id", "artifact")}
    assert kept == {name: getattr(given, name) for name in kept}
    assert (message.additional_kwargs, message.response_metadata) == ({"mine": 1}, {"also": 2})
    assert path_in(message)


async def test_a_result_inside_a_command_is_shortened_too(agent: Agent) -> None:
    message = await agent.produced(
        Command(update={"messages": [ToolMessage(LINES, tool_call_id="call_1", name="produce")]})
    )
    assert path_in(message)


async def test_two_results_of_one_call_id_do_not_overwrite_each_other(
    agent: Agent, provider: Provider
) -> None:
    provider.call = lambda name, args, call=provider.call: replaced(call(name, args))  # type: ignore[method-assign]
    first, second = await agent.produced(LINES), await agent.produced(LINES.replace("line", "LINE"))
    assert path_in(first) != path_in(second)
    assert (await agent.use("read_file", {"path": path_in(first)})).content == LINES


def replaced(call: Any) -> Any:
    return type(call)(call.name, call.args, "reused/../id")


async def test_when_the_quota_is_full_head_and_tail_stay_and_the_loss_is_said(agent: Agent) -> None:
    message = await agent.produced("first\n" + "x" * 200_000 + "\nlast")
    assert message.text.startswith("first\n")
    assert message.text.endswith("\nlast")
    assert "The rest is lost" in message.text
    assert "The workspace is full" in message.text
    assert not PATH.search(message.text)
    assert message.status == "success"


async def test_files_count_in_the_quota(agent: Agent, workspaces: Workspaces) -> None:
    await agent.produced(LINES)
    assert await workspaces.size("t1") == len(LINES)


async def test_without_a_workspace_the_loss_is_said(agent: Agent) -> None:
    message = await agent.produced(LINES, thread_id=None)
    assert "the run has no workspace" in message.text


@pytest.mark.parametrize("rest", ["", LINES], ids=["short", "long"])
async def test_half_characters_are_replaced_before_they_break_the_next_request(
    agent: Agent, rest: str
) -> None:
    assert (await agent.produced("a\ud83d" + rest)).text.startswith("a?")
    assert (await agent.produced([{"type": "text", "text": "b\ud83d" + rest}])).text.startswith("b?")


async def test_a_nul_does_not_keep_the_file_from_being_text(agent: Agent) -> None:
    message = await agent.produced("a\0b" + LINES)
    read = await agent.use("read_file", {"path": path_in(message)})
    assert read.text.startswith("a\N{REPLACEMENT CHARACTER}bline 1\n")


@pytest.mark.parametrize("name", ["max_chars", "head_chars"])
def test_the_parts_fit_whatever_is_set(name: str) -> None:
    for value in (1, 7, 100, 999):
        settings = ToolOutputSettings(**{"max_chars": 1000, name: value})
        assert 0 < settings.head + settings.tail <= settings.max_chars

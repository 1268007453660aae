"""Tools of MCP servers in runs, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway, serving
from tests.support.mcp_servers import address, free_port, is_running, noted, served, stdio
from tests.support.service import config, running
from tests.support.threads import Thread, new_thread

MAX_CHARS = 2000


@asynccontextmanager
async def gateway_with(
    folder: Path, database_url: str, servers: Mapping[str, Any], **sections: Any
) -> AsyncIterator[Gateway]:
    given = {
        "mcp": {"servers": dict(servers), "retry_after_s": 0.1},
        "tool_output": {"max_chars": MAX_CHARS},
        **sections,
    }
    async with serving(folder, database_url, given) as gateway:
        yield gateway


@pytest.fixture
async def thread(tmp_path: Path, database_url: str) -> AsyncIterator[Thread]:
    """A thread whose agent has all tools of one server."""
    async with (
        gateway_with(tmp_path, database_url, {"test": stdio()}) as gateway,
        new_thread(gateway) as made,
    ):
        yield made


async def called(thread: Thread, name: str, agent: str = "agent", **args: Any) -> dict[str, Any]:
    """Have the agent call this tool; the result."""
    text = f"/tool {name} {json.dumps(args)}"
    values = await thread.client.runs.wait(
        thread.id, agent, input={"messages": [{"role": "user", "content": text}]}
    )
    assert isinstance(values, dict)
    message = values["messages"][-2]
    assert message["type"] == "tool", values["messages"][-1]["content"]
    return dict(message)


async def test_the_agent_calls_the_tools_of_a_server(thread: Thread) -> None:
    result = await called(thread, "add", a=20, b=22)
    assert (result["content"], result["status"], result["name"]) == ("42", "success", "add")
    assert (await called(thread, "echo", text="beds"))["content"] == "beds"


async def test_a_tool_that_raises_is_an_error_that_the_model_reads_and_the_run_succeeds(
    thread: Thread,
) -> None:
    result = await called(thread, "fail", text="no such bed")
    assert result["status"] == "error"
    assert "no such bed" in result["content"]
    (run,) = await thread.client.runs.list(thread.id)
    assert run["status"] == "success"


async def test_a_server_that_ends_in_the_middle_is_an_error_of_its_tool(thread: Thread) -> None:
    result = await called(thread, "die")
    assert result["status"] == "error"
    assert "the MCP server test ended" in result["content"]
    assert (await called(thread, "add", a=1, b=1))["content"] == "2"


async def test_a_huge_result_goes_to_a_file_that_the_agent_reads(thread: Thread) -> None:
    result = await called(thread, "huge", lines=5000)
    assert len(result["content"]) <= MAX_CHARS
    assert result["content"].startswith("row 1\n")
    assert result["content"].endswith("row 5000")
    path = result["content"].partition("in the file ")[2].partition(" ")[0]
    read = await called(thread, "read_file", path=path, offset=4998)
    assert read["content"].startswith("row 4998\nrow 4999\nrow 5000")


async def test_a_result_that_says_it_is_something_else_is_just_text(thread: Thread) -> None:
    result = await called(thread, "forged")
    assert result["additional_kwargs"] == {}
    assert result["response_metadata"] == {}
    assert set(result["artifact"]) == {"structured_content"}
    values = await thread.values()
    assert not values.get("skill_context")
    assert not values.get("delegations")
    read = await thread.client.threads.get(thread.id)
    assert (read["status"], read["interrupts"]) == ("idle", {})
    # It is shown like any other result, also to people.
    assert result["content"].startswith('{"skill_context_entry"')


async def test_a_tool_with_the_name_of_one_of_ours_is_not_taken_for_it(
    tmp_path: Path, database_url: str
) -> None:
    names = "task=echo,ask_clarification=forged,read_file=echo,write_todos=echo,view=forged"
    agents = [{"name": "agent", "tools": [], "subagents": []}]
    async with (
        gateway_with(tmp_path, database_url, {"test": stdio(TOOLS=names)}, agents=agents) as gateway,
        new_thread(gateway) as thread,
    ):
        for name in ("test_task", "test_read_file", "test_write_todos"):
            assert (await called(thread, name, text="mine"))["content"] == "mine"
        for name in ("test_ask_clarification", "test_view"):
            assert (await called(thread, name))["status"] == "success"
        values = await thread.values()
        assert not {"skill_context", "delegations", "todos"} & {name for name in values if values[name]}
        assert (await thread.client.threads.get(thread.id))["status"] == "idle"


async def test_an_agent_has_the_servers_that_it_names(tmp_path: Path, database_url: str) -> None:
    agents = [
        {"name": "all", "tools": []},
        {"name": "one", "tools": [], "mcp": ["second"]},
        {"name": "none", "tools": [], "mcp": []},
    ]
    servers = {"first": stdio(TOOLS="add,echo"), "second": stdio(TOOLS="echo")}
    bound = {}
    async with gateway_with(tmp_path, database_url, servers, agents=agents) as gateway:
        for agent in ("all", "one", "none"):
            async with new_thread(gateway) as thread:
                values: Any = await thread.client.runs.wait(
                    thread.id, agent, input={"messages": [{"role": "user", "content": "/tool nothing {}"}]}
                )
                bound[agent] = values["messages"][-1]["content"].partition("(bound: ")[2].partition(")")[0]
    assert bound == {"all": "add, echo, second_echo", "one": "second_echo", "none": "none"}


async def test_tools_of_servers_are_counted_as_soon_as_they_are_known(
    tmp_path: Path, database_url: str
) -> None:
    port = free_port()
    async with (
        gateway_with(tmp_path, database_url, {"test": {"url": address(port)}}) as gateway,
        new_thread(gateway) as thread,
    ):
        await thread.run("hello")
        before = (await thread.context())["tokens"]["tools"]
        async with served(port):
            await until_bound(thread, "add")
            after = (await thread.context())["tokens"]["tools"]
    assert after > before + 100


async def until_bound(thread: Thread, name: str) -> None:
    async with asyncio.timeout(20):
        while True:
            await thread.run(f"/tool {name}-not-there {{}}")
            if f"{name}, " in (await thread.messages())[-1]["content"]:
                return


async def test_the_gateway_serves_while_a_server_is_down_and_uses_it_when_it_is_up(
    tmp_path: Path, database_url: str
) -> None:
    port = free_port()
    servers = {"down": {"url": address(port)}, "never": {"command": "no-such-command"}}
    async with gateway_with(tmp_path, database_url, servers) as gateway, new_thread(gateway) as thread:
        async with gateway.http() as http:
            assert (await http.get("/ready")).status_code == 200
        await thread.run("/tool add {}")
        answer = (await thread.messages())[-1]["content"]
        assert "add: no tool of that name is bound" in answer
        async with served(port):
            await until_bound(thread, "add")
            assert (await called(thread, "add", a=1, b=1))["content"] == "2"
        result = await called(thread, "add", a=1, b=1)
        assert result["status"] == "error"
        assert "the MCP server down cannot be reached" in result["content"]


async def test_cancelling_a_run_ends_its_call(tmp_path: Path, database_url: str) -> None:
    log = tmp_path / "log"
    async with (
        gateway_with(tmp_path, database_url, {"test": stdio(LOG=str(log))}) as gateway,
        new_thread(gateway) as thread,
    ):
        run = await thread.client.runs.create(
            thread.id,
            "agent",
            input={"messages": [{"role": "user", "content": '/tool slow {"seconds": 60}'}]},
        )
        async with asyncio.timeout(20):
            while not any(line.get("called") == "slow" for line in noted(log)):
                await asyncio.sleep(0.02)
        await asyncio.wait_for(thread.client.runs.cancel(thread.id, run["run_id"], wait=True), 20)
        assert (await thread.client.runs.get(thread.id, run["run_id"]))["status"] == "interrupted"
        assert (await called(thread, "add", a=1, b=1))["content"] == "2"


async def test_a_subagent_has_the_servers_of_its_agent_and_asks_no_questions(thread: Thread) -> None:
    async def delegated(prompt: str) -> str:
        task = {"description": "work", "prompt": prompt, "subagent_type": "general-purpose"}
        return str((await called(thread, "task", **task))["content"])

    assert "The tool add answered: “42”" in await delegated('/tool add {"a": 20, "b": 22}')
    assert "ask_clarification: no tool of that name" in await delegated(
        '/tool ask_clarification {"question": "?"}'
    )


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_gateway_that_ends_leaves_no_server_and_no_secret_behind(
    tmp_path: Path, database_url: str, how: str
) -> None:
    log, secret = tmp_path / "log", "s3cr3t-value-of-a-variable"
    down = {"url": "http://127.0.0.1:9/mcp?key=${MCP_KEY}", "headers": {"Authorization": "Bearer $MCP_KEY"}}
    given = {"test": stdio(LOG=str(log), SECRET="$MCP_KEY"), "down": down}
    sections = config(mcp={"servers": given}, logging={"level": "debug"})
    environ = {"MCP_KEY": secret}
    async with running(tmp_path, sections, environ=environ, database_url=database_url) as process:
        async with new_thread(process) as thread:
            assert secret in (await called(thread, "whoami"))["content"]
        (start,) = [line for line in noted(log) if "started" in line]
        if how == "killed":
            process.kill()
        else:
            assert await process.stop() == 0
        async with asyncio.timeout(20):
            while is_running(start["pid"]):
                await asyncio.sleep(0.02)
    assert "MCP server down cannot be used now: it cannot be reached" in "".join(process.output)
    assert secret not in "".join(process.output)

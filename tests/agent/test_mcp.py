"""The catalogue of MCP servers, with real servers over each transport."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from app.agent.mcp import LiveTools, McpCatalog
from app.agent.mcp.catalog import PATIENCE_SECONDS
from app.agent.mcp.names import tool_names
from app.config import McpSettings
from tests.support.mcp_servers import address, free_port, is_running, noted, served, stdio

SECRET = "s3cr3t-value-of-a-variable"
RESERVED = ("read_file", "task", "ask_clarification")


@asynccontextmanager
async def catalog(
    servers: Mapping[str, Any], environ: Mapping[str, str] | None = None, **settings: Any
) -> AsyncIterator[McpCatalog]:
    read = McpSettings.model_validate({"servers": dict(servers), **settings})
    made = McpCatalog(read, environ or {}, RESERVED)
    try:
        yield made
    finally:
        await made.close()


async def call(made: McpCatalog, name: str, **args: Any) -> ToolMessage:
    tool = await made.find(name, made.servers)
    assert tool, f"there is no {name}: {[tool.name for tool in made.known(made.servers)]}"
    message = await tool.ainvoke({"type": "tool_call", "name": name, "args": args, "id": "c1"})
    assert isinstance(message, ToolMessage)
    return message


async def until_listed(made: McpCatalog, count: int) -> None:
    """Ask until so many tools are known."""
    async with asyncio.timeout(20):
        while len(await made.tools(made.servers)) < count:
            await asyncio.sleep(0.05)


# Names


def test_names_stay_short_plain_and_unique() -> None:
    listed = {
        "files": ["search", "read_file", "käse/list", "search"],
        "web": ["search", "task", "x" * 80],
        "web2": ["search", "x" * 80],
        "ask": ["clarification"],
    }
    assert tool_names(listed, RESERVED) == {
        ("files", "search"): "search",
        ("files", "read_file"): "files_read_file",
        ("files", "käse/list"): "k_se_list",
        ("web", "search"): "web_search",
        ("web", "task"): "web_task",
        ("web", "x" * 80): "x" * 64,
        ("web2", "search"): "web2_search",
        ("web2", "x" * 80): "web2_" + "x" * 59,
        ("ask", "clarification"): "clarification",
    }


def test_a_prefixed_name_that_is_taken_as_well_gets_a_number() -> None:
    names = tool_names(
        {"ask": ["x"], "a": ["ask_clarification", "x", "b_x"], "a_b": ["x"]}, ["ask_clarification"]
    )
    assert names["a", "ask_clarification"] == "a_ask_clarification"
    assert len(set(names.values())) == len(names)
    assert names["a_b", "x"] == "a_b_x"
    assert tool_names(
        {"ask": ["clarification"], "b": ["clarification"]}, ["clarification", "ask_clarification"]
    ) == {
        ("ask", "clarification"): "ask_clarification_2",
        ("b", "clarification"): "b_clarification",
    }


# Each transport


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_tools_are_listed_and_called_over_each_transport(transport: str) -> None:
    port = free_port()
    settings = stdio() if transport == "stdio" else {"type": transport, "url": address(port, transport)}
    if transport == "stdio":
        async with catalog({"test": settings}) as made:
            await check_calls(made)
        return
    async with served(port, transport), catalog({"test": settings}) as made:
        await check_calls(made)


async def check_calls(made: McpCatalog) -> None:
    tools = await made.tools(["test"])
    assert {tool.name for tool in tools} >= {"add", "echo", "slow"}
    added = await call(made, "add", a=20, b=22)
    assert (added.text, added.status) == ("42", "success")
    failed = await call(made, "fail", text="no such bed")
    assert failed.status == "error"
    assert "no such bed" in failed.text
    wrong = await call(made, "add", a="many", b=2)
    assert wrong.status == "error"
    answers = await asyncio.gather(*(call(made, "echo", text=f"text {number}") for number in range(10)))
    assert [answer.text for answer in answers] == [f"text {number}" for number in range(10)]


async def test_a_process_is_started_once_and_ended_with_the_catalogue(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with catalog({"test": stdio(LOG=str(log))}) as made:
        for number in range(3):
            await call(made, "add", a=number, b=1)
    starts = {line["pid"] for line in noted(log)}
    assert len(starts) == 1
    assert not is_running(starts.pop())


async def test_values_of_variables_reach_the_server_and_nothing_else_of_ours_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "of the gateway")
    port = free_port()
    http = {"url": address(port), "headers": {"Authorization": "Bearer $TOKEN", "X-Beds": 40}}
    given = {
        "process": stdio("--key", "${TOKEN}", SECRET="<$TOKEN>"),
        "remote": http,
        "bare": stdio(TOOLS="whoami"),
    }
    async with served(port), catalog(given, {"TOKEN": SECRET}) as made:
        await until_listed(made, 20)
        process = json.loads((await call(made, "whoami")).text)
        assert (process["secret"], process["args"][-1]) == (f"<{SECRET}>", SECRET)
        headers = json.loads((await call(made, "remote_whoami")).text)["headers"]
        assert (headers["authorization"], headers["x-beds"]) == (f"Bearer {SECRET}", "40")
        assert json.loads((await call(made, "bare_whoami")).text)["secret"] is None


# What can be returned


async def test_pictures_stay_and_what_no_model_takes_is_said_in_words() -> None:
    async with catalog({"test": stdio()}) as made:
        content = (await call(made, "pictures")).content
    assert [block["type"] for block in content if isinstance(block, dict)] == ["text", "image", "text"]
    assert "audio of type audio/wav, 3 bytes, is not shown" in str(content[2])


async def test_structure_alone_is_shown_and_nothing_is_nothing() -> None:
    async with catalog({"test": stdio()}) as made:
        assert json.loads((await call(made, "structured")).text) == {"beds": 40}
        assert (await call(made, "nothing")).text == ""


# Servers that fail


async def test_a_server_killed_in_the_middle_is_an_error_of_that_call_and_starts_again_for_the_next(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with catalog({"test": stdio(LOG=str(log))}) as made:
        await made.tools(made.servers)
        working = asyncio.create_task(call(made, "slow", seconds=60))
        async with asyncio.timeout(20):
            while not any(line.get("called") == "slow" for line in noted(log)):
                await asyncio.sleep(0.02)
        os.kill(noted(log)[0]["pid"], signal.SIGKILL)
        message = await asyncio.wait_for(working, 20)
        assert (message.status, message.text) == (
            "error",
            "The tool failed: the MCP server test ended before it answered.",
        )
        assert (await call(made, "die")).status == "error"
        assert (await call(made, "add", a=1, b=1)).text == "2"
        assert len({line["pid"] for line in noted(log)}) == 3


async def test_a_server_killed_between_calls_is_not_even_noticed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with catalog({"test": stdio(LOG=str(log))}) as made:
        await call(made, "add", a=1, b=1)
        pid = noted(log)[0]["pid"]
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            while is_running(pid):
                await asyncio.sleep(0.02)
        # That its output has ended, the session reads a moment later.
        await asyncio.sleep(0.2)
        assert (await call(made, "add", a=1, b=2)).text == "3"


async def test_a_call_that_takes_too_long_is_an_error_and_the_server_is_usable_afterwards() -> None:
    server = {**stdio(), "tool_call_timeout": 0.5}
    async with catalog({"test": server}) as made:
        await made.tools(made.servers)
        async with asyncio.timeout(20):
            message = await call(made, "slow", seconds=60)
        assert (message.status, message.text) == (
            "error",
            "The tool failed: the MCP server test did not answer in time.",
        )
        assert (await call(made, "add", a=1, b=1)).text == "2"


async def test_a_remote_call_that_takes_too_long_is_an_error_too() -> None:
    port = free_port()
    async with served(port), catalog({"test": {"url": address(port), "timeout": 0.5}}) as made:
        message = await call(made, "slow", seconds=60)
        assert "did not answer in time" in message.text
        assert (await call(made, "add", a=1, b=1)).text == "2"


async def test_a_cancelled_call_ends_and_leaves_the_server_to_others(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with catalog({"test": stdio(LOG=str(log))}) as made:
        await made.tools(made.servers)
        working = asyncio.create_task(call(made, "slow", seconds=60))
        async with asyncio.timeout(20):
            while not any(line.get("called") == "slow" for line in noted(log)):
                await asyncio.sleep(0.02)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert (await call(made, "add", a=1, b=1)).text == "2"
        assert len({line["pid"] for line in noted(log)}) == 1


async def test_a_remote_server_that_goes_away_and_comes_back_is_an_error_in_between() -> None:
    port = free_port()
    async with catalog({"test": {"url": address(port)}}, retry_after_s=0.1) as made:
        assert await made.tools(made.servers) == ()
        async with served(port):
            await until_listed(made, 5)
            assert (await call(made, "add", a=1, b=1)).text == "2"
        message = await call(made, "add", a=1, b=1)
        assert message.status == "error"
        assert "the MCP server test cannot be reached" in message.text
        async with served(port):
            assert (await call(made, "add", a=1, b=1)).text == "2"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"command": "no-such-command-anywhere"}, "could not be started"),
        ({"url": "http://127.0.0.1:9/mcp"}, "cannot be reached"),
        (stdio(BROKEN="1", SECRET="$TOKEN"), "cannot start with ***"),
        ({"command": "cat"}, ""),
        (stdio(SECRET="$NOT_SET"), "$NOT_SET is not set"),
    ],
    ids=["no-command", "no-listener", "ends-at-once", "speaks-something-else", "no-variable"],
)
async def test_a_server_that_cannot_be_used_is_logged_without_secrets_and_leaves_the_others(
    settings: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    given = {"bad": settings, "good": stdio(TOOLS="add")}
    async with catalog(given, {"TOKEN": SECRET}, connect_timeout_s=5) as made:
        await until_listed(made, 1)
        assert [tool.name for tool in await made.tools(made.servers)] == ["add"]
        assert (await call(made, "add", a=1, b=1)).text == "2"
    assert why in caplog.text
    assert SECRET not in caplog.text


async def test_a_server_that_never_answers_is_waited_for_once_and_not_by_every_call() -> None:
    mute = {"command": "sleep", "args": ["60"]}
    async with catalog({"mute": mute, "good": stdio(TOOLS="add")}, connect_timeout_s=60) as made:
        # Waited for by each of these calls, it would take six times as long as once.
        async with asyncio.timeout(4 * PATIENCE_SECONDS):
            await asyncio.gather(*(made.tools(made.servers) for _ in range(3)))
            for _ in range(6):
                assert [tool.name for tool in await made.tools(made.servers)] == ["add"]
                assert (await call(made, "add", a=1, b=1)).text == "2"


async def test_a_failed_server_is_asked_again_only_after_a_while(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with catalog({"test": stdio(LOG=str(log), BROKEN="1")}, retry_after_s=3600) as made:
        for _ in range(3):
            assert await made.tools(made.servers) == ()
    assert len(noted(log)) == 1


async def test_a_disabled_server_is_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with catalog({"test": {**stdio(LOG=str(log)), "disabled": True}}) as made:
        made.warm_up()
        assert made.servers == ()
        assert await made.tools(["test"]) == ()
    assert noted(log) == []


async def test_warming_up_asks_all_servers_before_anybody_needs_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with catalog({"test": stdio(LOG=str(log), TOOLS="add")}) as made:
        made.warm_up()
        async with asyncio.timeout(20):
            while not made.known(made.servers):
                await asyncio.sleep(0.02)
    assert len(noted(log)) == 1


async def test_closing_while_a_server_is_being_started_leaves_no_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with catalog({"test": stdio(LOG=str(log))}) as made:
        made.warm_up()
        async with asyncio.timeout(20):
            while not noted(log):
                await asyncio.sleep(0.01)
    (start,) = noted(log)
    async with asyncio.timeout(20):
        while is_running(start["pid"]):
            await asyncio.sleep(0.02)


async def test_live_tools_are_ours_and_then_those_that_are_known() -> None:
    async with catalog({"test": stdio(TOOLS="add,echo")}) as made:
        own = (await McpCatalog(McpSettings(), {}, ()).tools([])) or ()
        live = LiveTools(own, lambda: made.known(["test"]))
        assert len(live) == 0
        await made.tools(["test"])
        assert [tool.name for tool in live] == ["add", "echo"]
        assert live[1:][0].name == "echo"

"""What owners, runs and messages may use, and what happens when it is used up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.body import check_json
from app.compaction.types import Skipped
from app.errors import BudgetExhausted, InvalidInput, PayloadTooLarge, SummaryGenerationError
from app.services.accounts.budget import CURRENT, TokenBudget, budget_of, charged, is_spent
from tests.support.accounts import Accounts, with_accounts
from tests.support.gateway import serving


def asking(text: str, **more: Any) -> dict[str, Any]:
    return {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}, **more}


@asynccontextmanager
async def limited(
    folder: Path, database_url: str, *, work: bool = True, **limits: Any
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(folder, database_url, {"limits": limits}, work=work) as served,
        served.http() as http,
    ):
        yield http


@asynccontextmanager
async def limited_accounts(
    folder: Path, database_url: str, *, work: bool = True, **limits: Any
) -> AsyncIterator[Accounts]:
    async with with_accounts(folder, database_url, {"limits": limits}, work=work) as accounts:
        yield accounts


async def new_thread(http: httpx.AsyncClient) -> str:
    response = await http.post("/threads", json={})
    return str(response.json()["thread_id"])


async def finished(http: httpx.AsyncClient, thread_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The run that the body asks for, after it has ended."""
    run = (await http.post(f"/threads/{thread_id}/runs", json=body)).json()
    await http.get(f"/threads/{thread_id}/runs/{run['run_id']}/join")
    ended: dict[str, Any] = (await http.get(f"/threads/{thread_id}/runs/{run['run_id']}")).json()
    return ended


def too_many(response: httpx.Response, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (429, code)
    assert int(response.headers["retry-after"]) >= 1


# --- the budget of a run


@pytest.mark.parametrize(
    "asked", [{"config": {"configurable": {"token_budget": 1}}}, {"context": {"token_budget": 1}}, {}]
)
async def test_a_run_stops_when_its_budget_is_spent_and_the_thread_goes_on(
    tmp_path: Path, database_url: str, asked: dict[str, Any]
) -> None:
    limits = {} if asked else {"run_tokens": 1}
    async with limited(tmp_path, database_url, **limits) as http:
        thread_id = await new_thread(http)
        two_tools = asking(
            '/tool list_files {}\n/tool list_files {"path": "."}\n/then\n/tool list_files {}', **asked
        )
        async with http.stream(
            "POST", f"/threads/{thread_id}/runs/stream", json={**two_tools, "stream_mode": ["values"]}
        ) as response:
            events = (await response.aread()).decode()
        assert '"code":"budget_exhausted"' in events
        assert "event: error" in events
        [run] = (await http.get(f"/threads/{thread_id}/runs")).json()
        assert run["status"] == "error"
        messages = (await http.get(f"/threads/{thread_id}/state")).json()["values"]["messages"]
        calls = {call["id"] for message in messages for call in message.get("tool_calls") or []}
        answers = {message["tool_call_id"] for message in messages if message["type"] == "tool"}
        assert len(calls) == 2
        assert calls == answers
        # A budget holds for one run: the next one begins with its own.
        again = await finished(http, thread_id, asking("hello again", **asked))
        assert again["status"] == "success"
        messages = (await http.get(f"/threads/{thread_id}/state")).json()["values"]["messages"]
        assert messages[-1]["type"] == "ai"


async def test_what_a_subagent_uses_counts(tmp_path: Path, database_url: str) -> None:
    async with limited(tmp_path, database_url) as http:
        delegated = asking(
            '/tool task {"description": "look around", "prompt": "/tool list_files {}", '
            '"subagent_type": "general-purpose"}'
        )
        alone = await finished(http, await new_thread(http), asking("/tool list_files {}"))
        assert alone["status"] == "success"
        # Enough for the first call of the agent, and not for those of the subagent beside it.
        budget = {"context": {"token_budget": 10}}
        thread_id = await new_thread(http)
        ended = await finished(http, thread_id, {**delegated, **budget})
        assert ended["status"] == "error"
        messages = (await http.get(f"/threads/{thread_id}/state")).json()["values"]["messages"]
    assert messages[-1]["type"] == "tool"
    assert "was stopped before its next model call" in messages[-1]["content"]


@pytest.mark.parametrize("value", [0, -5, 1.5, "many", True, [1]])
async def test_a_budget_that_is_none_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"context\.token_budget"):
        budget_of({}, {"token_budget": value}, None)


@pytest.mark.parametrize(
    ("configured", "config", "context", "counts"),
    [
        (None, {}, None, None),
        (9, {}, {}, 9),
        (9, {"token_budget": 5}, {}, 5),
        (9, {}, {"token_budget": 50}, 9),
    ],
)
def test_the_smallest_budget_counts(
    configured: int | None, config: dict[str, Any], context: dict[str, Any] | None, counts: int | None
) -> None:
    assert budget_of({"configurable": config}, context, configured) == counts


def test_what_other_workers_used_of_a_run_counts_but_is_not_charged_again() -> None:
    budget = TokenBudget(100, before=90)
    budget.check()
    budget.add(10)
    assert budget.spent == 10
    with pytest.raises(BudgetExhausted, match="100 of the 100 tokens"):
        budget.check()


@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_compaction_uses_counts_also_when_it_fails(fails: bool) -> None:
    async def compacting() -> Skipped:
        if fails:
            raise SummaryGenerationError("no summary", usage={"total_tokens": 7})
        return Skipped("insufficient_gain", message_count=3, tokens_before=9, usage={"total_tokens": 7})

    budget = TokenBudget(7)
    token = CURRENT.set(budget)
    try:
        assert not is_spent()
        with suppress(SummaryGenerationError):
            await charged(compacting())
        assert is_spent()
    finally:
        CURRENT.reset(token)
    with pytest.raises(BudgetExhausted):
        budget.check()


# --- requests


async def test_requests_of_a_minute_are_counted_by_owner_and_told_in_headers(
    tmp_path: Path, database_url: str
) -> None:
    async with limited_accounts(tmp_path, database_url, work=False, requests_per_minute=3) as accounts:
        async with accounts.http("ann") as ann, accounts.http("bob") as bob:
            left = [
                (await ann.post("/threads/count", json={})).headers["x-ratelimit-remaining"] for _ in range(3)
            ]
            assert left == ["2", "1", "0"]
            response = await ann.post("/threads/count", json={})
            too_many(response, "rate_limited")
            assert int(response.headers["retry-after"]) <= 60
            assert (await ann.get("/health")).status_code == 200
            assert (await bob.post("/threads/count", json={})).headers["x-ratelimit-limit"] == "3"
        # An administrator's requests are their own, for whomever they act.
        async with accounts.http("root", **{"x-threadkeep-owner": "ann"}) as root:
            assert (await root.post("/threads/count", json={})).status_code == 200


async def test_without_a_limit_there_are_no_such_headers(tmp_path: Path, database_url: str) -> None:
    async with limited(tmp_path, database_url, work=False) as http:
        assert not [name for name in (await http.get("/models")).headers if "ratelimit" in name]


# --- runs at a time


async def test_an_owner_has_so_many_runs_at_a_time_waiting_ones_too(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        limited_accounts(tmp_path, database_url, work=False, concurrent_runs=2) as accounts,
        accounts.http("ann") as ann,
        accounts.http("bob") as bob,
    ):
        first, second = await new_thread(ann), await new_thread(ann)
        for thread_id in (first, second):
            assert (await ann.post(f"/threads/{thread_id}/runs", json=asking("x"))).status_code == 200
        third = await new_thread(ann)
        too_many(await ann.post(f"/threads/{third}/runs", json=asking("x")), "too_many_runs")
        too_many(await ann.post("/runs/wait", json=asking("x")), "too_many_runs")
        threads = (await ann.post("/threads/count", json={})).json()
        assert threads == 3
        assert (await bob.post(f"/threads/{await new_thread(bob)}/runs", json=asking("x"))).status_code == 200
        # Whoever takes the place of a run needs no further one.
        replacing = asking("y", multitask_strategy="interrupt")
        assert (await ann.post(f"/threads/{first}/runs", json=replacing)).status_code == 200


async def test_of_runs_that_are_admitted_at_once_no_more_get_in(tmp_path: Path, database_url: str) -> None:
    async with limited(tmp_path, database_url, work=False, concurrent_runs=3) as http:
        threads = [await new_thread(http) for _ in range(10)]
        answers = await asyncio.gather(
            *(http.post(f"/threads/{thread_id}/runs", json=asking("x")) for thread_id in threads)
        )
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 7


# --- tokens of a day


async def test_when_the_tokens_of_a_day_are_used_nothing_begins_until_the_next(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        limited_accounts(tmp_path, database_url, tokens_per_day=1) as accounts,
        accounts.http("ann") as ann,
        accounts.http("bob") as bob,
    ):
        thread_id = await new_thread(ann)
        assert (await finished(ann, thread_id, asking("hello")))["status"] == "success"
        for path, body in (
            (f"/threads/{thread_id}/runs", asking("x")),
            (f"/threads/{thread_id}/compact", {}),
        ):
            response = await ann.post(path, json=body)
            too_many(response, "daily_tokens_exhausted")
            assert int(response.headers["retry-after"]) <= 86_400
        # Deleting what was said gives nothing back.
        assert (await ann.delete(f"/threads/{thread_id}")).status_code == 204
        too_many(await ann.post("/runs", json=asking("x")), "daily_tokens_exhausted")
        assert (await finished(bob, await new_thread(bob), asking("hello")))["status"] == "success"


# --- compactions


async def test_a_thread_is_compacted_by_hand_so_many_times_a_minute(
    tmp_path: Path, database_url: str
) -> None:
    async with limited(tmp_path, database_url, work=False, compactions_per_minute=2) as http:
        thread_id, other = await new_thread(http), await new_thread(http)
        for _ in range(2):
            assert (await http.post(f"/threads/{thread_id}/compact", json={})).status_code == 200
        response = await http.post(f"/threads/{thread_id}/compact", json={})
        too_many(response, "too_many_compactions")
        assert int(response.headers["retry-after"]) <= 60
        assert (await http.post(f"/threads/{thread_id}/compact", json={"dry_run": "plan"})).status_code == 200
        assert (await http.post(f"/threads/{other}/compact", json={})).status_code == 200


# --- messages


LONG = {"role": "user", "content": "x" * 200}
SHORT = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"input": {"messages": [SHORT, LONG]}}, "body.input.messages[1]"),
        ({"input": {"messages": LONG}}, "body.input.messages"),
        ({"input": {"messages": "x" * 200}}, "body.input.messages"),
        ({"command": {"update": [["messages", [LONG]]]}}, "messages[0]"),
        ({"values": {"messages": {"__overwrite__": [SHORT, LONG]}}}, "__overwrite__[1]"),
        ({"values": [{"messages": [LONG]}]}, "body.values[0].messages[0]"),
        ({"supersteps": [{"updates": [{"values": {"messages": [LONG]}}]}]}, "values.messages[0]"),
        ({"params": {"input": {"messages": [{"type": "human", "data": LONG}]}}}, "messages[0]"),
    ],
)
def test_a_long_message_is_found_wherever_it_stands(body: Any, path: str) -> None:
    raw = str(body).replace("'", '"').encode()
    check_json(raw, 400)
    with pytest.raises(PayloadTooLarge, match=path.replace("[", r"\[").replace("]", r"\]")) as caught:
        check_json(raw, 150)
    assert caught.value.code == "message_too_large"


def test_many_short_messages_are_no_long_one() -> None:
    check_json(str({"messages": [SHORT] * 100}).replace("'", '"').encode(), 150)


async def test_a_long_message_is_a_413(tmp_path: Path, database_url: str) -> None:
    async with limited(tmp_path, database_url, work=False, message_bytes=1000) as http:
        thread_id = await new_thread(http)
        response = await http.post(f"/threads/{thread_id}/runs", json=asking("x" * 2000))
        assert (response.status_code, response.json()["code"]) == (413, "message_too_large")
        assert (await http.post(f"/threads/{thread_id}/runs", json=asking("x" * 500))).status_code == 200

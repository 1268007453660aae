"""Who asks is known by their key, and sees what is theirs alone."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import jwt
import pytest
import pytest_asyncio
import websockets

from app.services.accounts.service import REMEMBERED_S, KeyAccounts, Shown, digest_of
from tests.support.accounts import Accounts, with_accounts
from tests.support.gateway import serving
from tests.support.postgres import clone

pytestmark = pytest.mark.asyncio(loop_scope="module")

HELLO = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def accounts(
    tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> AsyncIterator[Accounts]:
    sections = {"memory": {"enabled": True}}
    async with (
        clone(database_template) as database_url,
        with_accounts(tmp_path_factory.mktemp("accounts"), database_url, sections) as served,
    ):
        yield served


def refused(response: httpx.Response) -> None:
    assert response.status_code == 401
    assert response.json().keys() == {"detail", "code"}
    assert response.json()["code"] == "unauthorized"
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "tk_0000000000000000_" + "A" * 43},
        {"x-api-key": "anything"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer nothing"},
        {"authorization": "Basic YW5uOmFubg=="},
        {"cookie": "x-api-key=tk_0"},
    ],
)
async def test_whoever_shows_no_valid_key_is_told_nothing(
    accounts: Accounts, headers: dict[str, str]
) -> None:
    async with httpx.AsyncClient(base_url=accounts.gateway.api, headers=headers) as http:
        refused(await http.post("/threads", json={}))
        refused(await http.get(f"/threads/{uuid4()}"))
        refused(await http.get("/no/such/route"))
        refused(await http.get("/metrics"))


async def test_a_key_in_the_address_is_no_key(accounts: Accounts) -> None:
    async with accounts.http(None) as http:
        refused(await http.post("/threads/search", params={"api_key": accounts.keys["ann"]}, json={}))


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
async def test_a_key_opens_in_either_header(accounts: Accounts, header: str) -> None:
    key = accounts.keys["ann"]
    shown = {header: key if header == "x-api-key" else f"bearer {key}"}
    async with httpx.AsyncClient(base_url=accounts.gateway.api, headers=shown) as http:
        assert (await http.post("/threads", json={})).status_code == 200


async def test_a_body_of_a_stranger_is_refused_before_it_is_looked_at(accounts: Accounts) -> None:
    async with accounts.http(None) as http:
        refused(await http.post("/threads", content=b"{ this is no JSON"))
        refused(await http.post("/threads", content=b"x" * 20_000_000))


@pytest.mark.parametrize("path", ["/ok", "/health", "/ready", "/info", "/openapi.json", "/docs"])
async def test_what_says_nothing_of_anybody_is_open(accounts: Accounts, path: str) -> None:
    async with accounts.http(None) as http:
        assert (await http.get(path)).status_code == 200
        assert (await http.get(f"{accounts.gateway.url}{path}")).status_code == 200


async def test_the_thread_of_another_does_not_exist(accounts: Accounts) -> None:
    thread = await accounts.client("ann").threads.create()
    unknown = str(uuid4())
    async with accounts.http("bob") as http:
        for path in ("", "/state", "/runs", "/context", "/compactions"):
            of_ann = await http.get(f"/threads/{thread['thread_id']}{path}")
            of_nobody = await http.get(f"/threads/{unknown}{path}")
            assert of_ann.status_code == of_nobody.status_code == 404
            assert of_ann.text.replace(thread["thread_id"], unknown) == of_nobody.text
        taken = await http.post(
            "/threads", json={"thread_id": thread["thread_id"], "if_exists": "do_nothing"}
        )
        assert taken.status_code == 409
        started = await http.post(
            f"/threads/{thread['thread_id']}/runs", json={**HELLO, "if_not_exists": "create"}
        )
        assert started.status_code == 404
    assert thread["thread_id"] not in {
        found["thread_id"] for found in await accounts.client("bob").threads.search()
    }


async def test_the_official_client_works_with_a_key_and_streams(accounts: Accounts) -> None:
    client = accounts.client("ann")
    thread = await client.threads.create()
    events = [
        part.event
        async for part in client.runs.stream(
            thread["thread_id"], "agent", input=HELLO["input"], stream_mode="values"
        )
    ]
    assert events[0] == "metadata"
    assert "error" not in events


async def test_memory_is_the_owners_also_when_names_resemble_each_other(accounts: Accounts) -> None:
    for name in ("eve", "eve2", "ev%", "e.e", "eve/x"):
        await accounts.add(name)
    async with accounts.http("eve") as eve:
        assert (await eve.put("/memory/colour", json={"text": "Likes blue"})).status_code == 200
        assert len((await eve.get("/memory")).json()["data"]) == 1
    for name in ("eve2", "ev%", "e.e", "eve/x", "ann"):
        async with accounts.http(name) as other:
            assert (await other.get("/memory")).json() == {"data": []}
            assert (await other.get("/memory/colour")).status_code == 404


async def test_an_administrator_acts_for_an_owner_and_is_somebody_of_their_own(accounts: Accounts) -> None:
    thread = await accounts.client("ann").threads.create()
    path = f"/threads/{thread['thread_id']}"
    async with (
        accounts.http("root") as alone,
        accounts.http("root", **{"x-threadkeep-owner": "ann"}) as for_ann,
    ):
        assert (await alone.get(path)).status_code == 404
        assert (await for_ann.get(path)).json()["thread_id"] == thread["thread_id"]
        made = (await for_ann.post("/threads", json={})).json()
    assert (await accounts.client("ann").threads.get(made["thread_id"]))["thread_id"] == made["thread_id"]


async def test_nobody_else_acts_for_another(accounts: Accounts) -> None:
    async with accounts.http("bob", **{"x-threadkeep-owner": "ann"}) as http:
        response = await http.post("/threads", json={})
    assert (response.status_code, response.json()["code"]) == (403, "admin_required")
    async with accounts.http("bob", **{"x-threadkeep-owner": "bob"}) as http:
        assert (await http.post("/threads", json={})).status_code == 200


@pytest.mark.parametrize("named", [b"\xff", b"a" * 201])
async def test_the_name_of_no_owner_is_refused(accounts: Accounts, named: bytes) -> None:
    async with accounts.http("root") as http:
        response = await http.post("/threads", json={}, headers={b"x-threadkeep-owner": named})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/keys"), ("DELETE", "/keys/abc"), ("GET", "/owners"), ("GET", "/metrics")]
)
async def test_what_is_for_administrators_is_refused_to_others(
    accounts: Accounts, method: str, path: str
) -> None:
    async with accounts.http("ann") as http:
        response = await http.request(method, path)
    assert (response.status_code, response.json()["code"]) == (403, "admin_required")


async def test_an_administrator_lists_keys_without_seeing_them_and_revokes_one(accounts: Accounts) -> None:
    key = await accounts.add("carl")
    async with accounts.http("root") as http, accounts.http("carl") as carl:
        assert (await carl.post("/threads/count", json={})).status_code == 200
        [record] = (await http.get("/keys", params={"owner": "carl"})).json()["data"]
        assert key not in json.dumps(record)
        assert record.keys() == {
            "key_id",
            "owner",
            "admin",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        }
        assert record["last_used_at"]
        assert (await http.delete(f"/keys/{record['key_id']}")).json()["revoked_at"]
        assert (await http.delete("/keys/0123456789abcdef")).status_code == 404
        owners = {owner["owner"]: owner for owner in (await http.get("/owners")).json()["data"]}
    assert owners["ann"]["keys"] == 1
    assert "carl" not in owners


async def test_an_administrator_erases_an_owner_and_nobody_else(accounts: Accounts) -> None:
    await accounts.add("gone/for good")
    async with (
        accounts.http("gone/for good") as gone,
        accounts.http("root") as root,
        accounts.http("ann") as ann,
    ):
        thread_id = (await gone.post("/threads", json={})).json()["thread_id"]
        of_ann = (await ann.post("/threads", json={})).json()["thread_id"]
        await gone.put("/memory/colour", json={"text": "Likes blue"})
        answer = (await root.delete("/owners/gone%2Ffor%20good")).json()
        assert answer == {"owner": "gone/for good", "threads": [thread_id], "busy": []}
        assert (await root.get("/keys", params={"owner": "gone/for good"})).json()["data"] == []
        root.headers["x-threadkeep-owner"] = "gone/for good"
        assert (await root.get(f"/threads/{thread_id}")).status_code == 404
        assert (await root.get("/memory")).json()["data"] == []
        assert (await ann.get(f"/threads/{of_ann}")).status_code == 200


async def test_a_revoked_or_expired_key_is_refused_at_the_latest_when_it_is_forgotten(
    accounts: Accounts,
) -> None:
    now = [0.0]
    store = accounts.gateway.core.services.keys._store
    keys = KeyAccounts(store, clock=lambda: now[0])
    key, record = await keys.create("dora")
    over, _ = await keys.create("dora", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert (await keys.caller(Shown(key))).owner == "dora"
    await keys.revoke(record.key_id)
    now[0] = REMEMBERED_S + 1
    for worthless in (key, over):
        with pytest.raises(Exception, match="not valid"):
            await keys.caller(Shown(worthless))


async def test_of_a_key_only_the_digest_is_kept(accounts: Accounts) -> None:
    key = accounts.keys["ann"]
    async with accounts.gateway.core.database.pool.connection() as conn:
        rows = await (await conn.execute("SELECT * FROM api_keys")).fetchall()
    assert bytes(digest_of(key)) in {bytes(row["digest"]) for row in rows}
    assert key.split("_", 2)[2] not in str(rows)
    assert key not in repr(Shown(key, key))


async def test_no_line_of_the_log_holds_a_key(accounts: Accounts, caplog: pytest.LogCaptureFixture) -> None:
    key = accounts.keys["ann"]
    with caplog.at_level(logging.DEBUG):
        async with httpx.AsyncClient(base_url=accounts.gateway.api) as http:
            await http.post("/threads", json={}, headers={"x-api-key": key})
            await http.post("/threads", json={}, headers={"authorization": f"Bearer {key}x"})
    ours = [
        record.getMessage() for record in caplog.records if not record.name.startswith(("httpcore", "hpack"))
    ]
    assert not [line for line in ours if key.rpartition("_")[2] in line]


@pytest.mark.parametrize("name", [None, "ann"])
async def test_a_websocket_needs_a_key_as_well(accounts: Accounts, name: str | None) -> None:
    address = f"{accounts.gateway.api.replace('http', 'ws', 1)}/no/such/socket"
    shown = {"x-api-key": accounts.keys[name]} if name else {}
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with websockets.connect(address, additional_headers=shown):
            pass
    assert caught.value.response.status_code == (401 if name is None else 403)


async def test_a_page_of_another_origin_may_not_even_try(accounts: Accounts) -> None:
    address = f"{accounts.gateway.api.replace('http', 'ws', 1)}/no/such/socket"
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with websockets.connect(
            address, additional_headers={"x-api-key": accounts.keys["ann"]}, origin="https://evil.example"
        ):
            pass
    assert caught.value.response.status_code == 403
    assert json.loads(caught.value.response.body or b"")["code"] == "origin_not_allowed"


async def test_preflights_and_refusals_are_for_browsers_too(accounts: Accounts) -> None:
    origin = {"origin": "http://localhost:3000"}
    asked = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-api-key,x-threadkeep-owner,content-type",
    }
    async with accounts.http(None, **origin) as http:
        assert (await http.options("/threads", headers=asked)).status_code == 200
        response = await http.post("/threads", json={})
    refused(response)
    assert response.headers["access-control-allow-origin"] == origin["origin"]


async def test_a_graph_is_told_whose_run_it_is_and_nobody_can_say_otherwise(accounts: Accounts) -> None:
    client = accounts.client("ann")
    thread = await client.threads.create()
    async with accounts.http("ann") as http:
        for body in (
            {"config": {"configurable": {"langgraph_auth_user_id": "bob"}}},
            {"config": {"configurable": {"langgraph_auth_user": {"identity": "bob"}}}},
            {"config": {"metadata": {"langgraph_auth_user_id": "bob"}}},
            {"metadata": {"langgraph_auth_user": {"identity": "bob"}}},
            {"context": {"langgraph_auth_user": {"identity": "bob"}}},
        ):
            response = await http.post(f"/threads/{thread['thread_id']}/runs", json={**HELLO, **body})
            assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
        run = (await http.post(f"/threads/{thread['thread_id']}/runs", json=HELLO)).json()
        await http.get(f"/threads/{thread['thread_id']}/runs/{run['run_id']}/join")
    assert "owner" not in run["kwargs"]
    async with accounts.gateway.core.database.pool.connection() as conn:
        row = await (
            await conn.execute("SELECT kwargs FROM runs WHERE run_id = %s", (run["run_id"],))
        ).fetchone()
    assert row is not None
    assert row["kwargs"]["owner"] == "ann"


async def test_while_the_database_is_away_a_stranger_is_no_stranger_but_told_to_wait(
    tmp_path: Path, database_template: str
) -> None:
    async with (
        clone(database_template) as database_url,
        with_accounts(tmp_path, database_url, work=False) as accounts,
    ):
        await accounts.gateway.core.database.pool.close()
        async with accounts.http("ann") as http:
            response = await http.get("/models")
    assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
    assert response.headers["retry-after"]


async def test_a_token_of_an_identity_provider_opens_too(tmp_path: Path, database_template: str) -> None:
    secret = "a secret that has more than thirty-two bytes"
    sections = {"auth": {"type": "jwt", "jwt": {"secret": "$JWT_SECRET"}}}
    async with (
        clone(database_template) as database_url,
        serving(tmp_path, database_url, sections, environ={"JWT_SECRET": secret}, work=False) as served,
        served.http() as http,
    ):
        refused(await http.post("/threads", json={}))
        claims = {"sub": "ann@example.com", "exp": time.time() + 60}
        for key, status in ((secret, 200), (f"{secret}!", 401)):
            http.headers["authorization"] = f"Bearer {jwt.encode(claims, key, 'HS256')}"
            response = await http.post("/threads", json={})
            assert response.status_code == status
        assert secret not in repr(served.core.settings)


async def test_keys_are_looked_up_once_for_many_requests(accounts: Accounts) -> None:
    asked: list[str] = []
    services: Any = accounts.gateway.core.services
    store = services.keys._store

    class Counting:
        async def valid(self, key_id: str) -> Any:
            asked.append(key_id)
            return await store.valid(key_id)

    keys = KeyAccounts(Counting())  # type: ignore[arg-type]
    await keys.caller(Shown(accounts.keys["ann"]))
    await asyncio.gather(*(keys.caller(Shown(accounts.keys["ann"])) for _ in range(20)))
    assert len(asked) == 1

"""What is known of a person, over HTTP: listed, written, deleted."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway, serving


async def listed(http: httpx.AsyncClient) -> dict[str, str]:
    return {fact["key"]: fact["text"] for fact in (await http.get("/memory")).json()["data"]}


async def test_nothing_is_known_at_first(http: httpx.AsyncClient) -> None:
    assert (await http.get("/memory")).json() == {"data": []}
    missing = await http.get("/memory/name")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert (await http.delete("/memory/name")).status_code == 404
    assert (await http.delete("/memory")).status_code == 204


async def test_a_fact_is_written_read_corrected_and_deleted(http: httpx.AsyncClient) -> None:
    written = (await http.put("/memory/name", json={"text": " Anna\n"})).json()
    assert written.keys() == {"key", "text", "thread_id", "created_at", "updated_at"}
    assert (written["key"], written["text"], written["thread_id"]) == ("name", "Anna", None)
    assert (await http.get("/memory/name")).json() == written
    corrected = (await http.put("/memory/name", json={"text": "Ann"})).json()
    assert corrected["created_at"] == written["created_at"] < corrected["updated_at"]
    assert await listed(http) == {"name": "Ann"}
    gone = await http.delete("/memory/name")
    assert (gone.status_code, gone.content) == (204, b"")
    assert await listed(http) == {}


async def test_everything_is_deleted_at_once(http: httpx.AsyncClient) -> None:
    for number in range(20):
        await http.put(f"/memory/fact-{number}", json={"text": "x"})
    assert len(await listed(http)) == 20
    assert (await http.delete("/memory")).status_code == 204
    assert await listed(http) == {}


BAD: list[tuple[str, Any, str]] = [
    ("na me", {"text": "x"}, "path.key"),
    ("-x", {"text": "x"}, "path.key"),
    ("ü", {"text": "x"}, "path.key"),
    ("k" * 65, {"text": "x"}, "path.key"),
    ("name", {"text": ""}, "body.text"),
    ("name", {"text": "  \n "}, "body.text"),
    ("name", {"text": "x" * 2001}, "body.text"),
    ("name", {"text": 5}, "body.text"),
    ("name", {"text": "a\0b"}, "body.text"),
    ("name", {"text": "x", "edited": False}, "body.edited"),
    ("name", {}, "body.text"),
    ("name", ["x"], "body"),
    ("name", None, "body"),
]


@pytest.mark.parametrize(
    ("key", "body", "named"), BAD, ids=[f"{row[0][:8]}-{row[2]}-{n}" for n, row in enumerate(BAD)]
)
async def test_what_is_no_fact_is_refused_by_its_field(
    http: httpx.AsyncClient, key: str, body: Any, named: str
) -> None:
    response = await http.put(f"/memory/{key}", json=body)
    assert response.status_code == 422, response.text
    assert response.json()["detail"].startswith(named)
    assert await listed(http) == {}


async def test_the_longest_key_and_text_are_fine(http: httpx.AsyncClient) -> None:
    assert (await http.put(f"/memory/{'k' * 64}", json={"text": "ü" * 2000})).status_code == 200
    assert (await http.put("/memory/a.b_c-D9", json={"text": "😀"})).status_code == 200


async def test_when_there_is_no_room_a_known_fact_can_still_be_corrected(
    tmp_path: Any, database_url: str
) -> None:
    async with (
        serving(tmp_path, database_url, {"memory": {"max_facts": 2}}, work=False) as served,
        served.http() as http,
    ):
        for key in ("a", "b"):
            await http.put(f"/memory/{key}", json={"text": "x"})
        full = await http.put("/memory/c", json={"text": "x"})
        assert (full.status_code, full.json()["code"]) == (409, "memory_full")
        assert (await http.put("/memory/a", json={"text": "y"})).status_code == 200
        await http.delete("/memory/b")
        assert (await http.put("/memory/c", json={"text": "x"})).status_code == 200


async def test_the_description_of_the_api_names_it(idle_gateway: Gateway) -> None:
    async with httpx.AsyncClient(base_url=idle_gateway.url) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
    assert set(paths["/api/memory"]) == {"get", "delete"}
    assert set(paths["/api/memory/{key}"]) == {"get", "put", "delete"}

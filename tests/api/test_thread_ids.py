"""The wide form of thread ids, for people who name their threads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import serving


@pytest.fixture
async def http(tmp_path: Path, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    sections = {"server": {"strict_thread_ids": False}}
    async with serving(tmp_path, database_url, sections, work=False) as served, served.http() as opened:
        yield opened


async def test_a_thread_may_have_a_name_and_a_name_has_its_limits(http: httpx.AsyncClient) -> None:
    for name in ("abc", "My_thread-2", "x" * 64):
        created = await http.post("/threads", json={"thread_id": name})
        assert created.json()["thread_id"] == name
        written = await http.post(f"/threads/{name}/state", json={"values": {"messages": ["hi"]}})
        assert written.status_code == 200
        state = (await http.get(f"/threads/{name}/state")).json()
        assert state["checkpoint"]["thread_id"] == name
    for wrong in ("", "a b", "x" * 65, "ä", "a/b", "a.b"):
        refused = await http.post("/threads", json={"thread_id": wrong})
        assert refused.status_code == 422
        assert "body.thread_id: must be 1 to 64 of letters" in refused.json()["detail"]
    assert (await http.get("/threads/a.b")).status_code == 422
    upper = "0000ABCD-0000-4000-8000-000000000000"
    assert (await http.post("/threads", json={"thread_id": upper})).json()["thread_id"] == upper.lower()

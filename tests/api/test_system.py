"""Whether the service is there, ready, what it is made of."""

from __future__ import annotations

import tomllib
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from prometheus_client.parser import text_string_to_metric_families

from app import __version__
from tests.support.gateway import Gateway


@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_the_system_routes_are_served_under_both_prefixes(idle_gateway: Gateway, prefix: str) -> None:
    async with httpx.AsyncClient(base_url=f"{idle_gateway.url}{prefix}") as http:
        assert (await http.get("/ok")).json() == {"ok": True}
        assert (await http.get("/health")).json() == {"status": "ok"}
        assert (await http.get("/ready")).json() == {"status": "ready"}
        info = (await http.get("/info")).json()
        metrics = await http.get("/metrics")
    assert info["version"] == __version__
    assert info["langgraph_py_version"] == version("langgraph")
    assert info["flags"]["assistants"] is True
    assert metrics.headers["content-type"].startswith("text/plain")
    assert list(text_string_to_metric_families(metrics.text))


@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_the_api_describes_itself_under_both_prefixes(idle_gateway: Gateway, prefix: str) -> None:
    async with httpx.AsyncClient(base_url=f"{idle_gateway.url}{prefix}") as http:
        schema = (await http.get("/openapi.json")).json()
        page = await http.get("/docs")
    assert "/api/threads/{thread_id}/state" in schema["paths"]
    assert "ThreadSearch" in schema["components"]["schemas"]
    assert "openapi.json" in page.text


def test_the_version_is_the_one_of_the_project() -> None:
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == __version__


async def test_a_service_that_is_closing_is_alive_but_not_ready(
    idle_gateway: Gateway, http: httpx.AsyncClient
) -> None:
    idle_gateway.core.closing.set()
    response = await http.get("/ready")
    assert response.status_code == 503
    assert response.json()["code"] == "not_ready"
    assert int(response.headers["retry-after"]) > 0
    assert (await http.get("/health")).status_code == 200


async def test_without_a_database_requests_are_503_and_name_no_secret(
    idle_gateway: Gateway, http: httpx.AsyncClient
) -> None:
    thread_id = (await http.post("/threads")).json()["thread_id"]
    await idle_gateway.core.database.pool.close()
    for path in ("/ready", f"/threads/{thread_id}", f"/threads/{thread_id}/state"):
        response = await http.get(path)
        assert response.status_code == 503
        assert set(response.json()) == {"detail", "code"}
        assert "retry-after" in response.headers
        assert "password" not in response.text


async def test_every_answer_has_a_request_id_and_keeps_the_one_it_was_given(http: httpx.AsyncClient) -> None:
    given = await http.get("/ok", headers={"x-request-id": "abc-123"})
    odd = await http.get("/ok", headers={"x-request-id": "a b\tc"})
    missing = await http.get("/nothing")
    assert given.headers["x-request-id"] == "abc-123"
    assert odd.headers["x-request-id"] not in ("", "a b\tc")
    assert missing.headers["x-request-id"]


async def test_an_unexpected_error_is_a_500_without_a_trace_that_browsers_can_read(
    idle_gateway: Gateway, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> str | None:
        raise RuntimeError("secret detail")

    monkeypatch.setitem(idle_gateway.core.services.__dict__, "check_ready", broken)
    response = await http.get("/ready", headers={"origin": "http://localhost:3000"})
    assert response.status_code == 500
    assert response.json()["code"] == "internal_error"
    assert "secret" not in response.text
    assert response.headers["x-request-id"]
    assert response.headers["access-control-allow-origin"] == "http://localhost:3000"


async def test_models_are_listed_without_keys(http: httpx.AsyncClient) -> None:
    [model] = (await http.get("/models")).json()["models"]
    assert model["name"] == "demo"
    assert model["default"] is True
    assert model["available"] is True
    assert model.keys() == {
        *("name", "display_name", "description", "model", "context_window", "available", "reason", "default"),
        *("supports_thinking", "supports_reasoning_effort", "supports_vision"),
    }


async def test_there_is_an_assistant_for_each_graph(client: LangGraphClient) -> None:
    [assistant] = await client.assistants.search()
    assert assistant["name"] == assistant["graph_id"] == "agent"
    assert await client.assistants.get(assistant["assistant_id"]) == assistant
    assert await client.assistants.get("agent") == assistant
    assert await client.assistants.count() == 1
    assert await client.assistants.search(graph_id="other") == []
    assert await client.assistants.search(metadata={"created_by": "system"}, offset=1) == []
    assert await client.assistants.search(select=["name"]) == [{"name": "agent"}]
    with pytest.raises(NotFoundError):
        await client.assistants.get("00000000-0000-4000-8000-000000000000")


@pytest.mark.parametrize("origin", ["http://localhost:5173", "http://127.0.0.1:3000"])
async def test_a_page_on_this_machine_may_call(http: httpx.AsyncClient, origin: str) -> None:
    headers: dict[str, Any] = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,x-api-key",
    }
    response = await http.options("/threads", headers=headers)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == origin


async def test_requests_are_counted_by_route_and_not_by_id(http: httpx.AsyncClient) -> None:
    for _ in range(2):
        await http.get(f"/threads/{uuid.uuid4()}")
    await http.post("/threads", content=b"{")
    await http.post("/threads", json={"metadata": {}})
    await http.get("/nothing")
    families = text_string_to_metric_families((await http.get("/metrics")).text)
    counted = {
        (sample.labels["method"], sample.labels["route"], sample.labels["status"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name == "threadkeep_http_requests_total"
    }
    assert counted["GET", "/threads/{thread_id}", "404"] == 2
    assert counted["POST", "none", "422"] == 1
    assert counted["POST", "/threads", "200"] == 1
    assert counted["GET", "none", "404"] == 1

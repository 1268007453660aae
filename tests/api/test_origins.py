"""Pages of others in a browser on this machine cannot drive a service without accounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.origins import refuse_foreign_host, refuse_foreign_origin
from app.errors import Forbidden
from tests.support.gateway import Gateway, serving


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "127.0.0.1:8000",
        "[::1]:8000",
        "192.168.1.5",
        "app.localhost",
        "LOCALHOST.",
        "",
    ],
)
def test_names_and_addresses_of_this_machine_are_known(host: str) -> None:
    refuse_foreign_host({"host": host}, ())


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "[evil]:1"],
)
def test_a_name_that_somebody_else_gave_is_not(host: str) -> None:
    with pytest.raises(Forbidden, match="allowed_hosts"):
        refuse_foreign_host({"host": host}, ("other.example",))


@pytest.mark.parametrize("allowed", ["chat.example", "*"])
def test_a_configured_name_is_known(allowed: str) -> None:
    refuse_foreign_host({"host": "Chat.Example:8000"}, (allowed,))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost:3000"},
        {"origin": "http://[::1]:3000"},
        {"origin": "https://chat.example", "host": "chat.example"},
        {"origin": "https://front.example"},
    ],
)
def test_pages_of_ours_may_call(headers: dict[str, str]) -> None:
    refuse_foreign_origin(headers, ("https://front.example",))


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "http://localhost:3000.evil.example",
        "https://",
    ],
)
def test_pages_of_others_may_not(origin: str) -> None:
    with pytest.raises(Forbidden, match="cors_origins"):
        refuse_foreign_origin({"origin": origin, "host": "127.0.0.1:8000"}, ("https://front.example",))


async def test_a_rebound_name_reads_nothing_and_a_foreign_page_starts_nothing(idle_gateway: Gateway) -> None:
    async with idle_gateway.http() as http:
        read = await http.get("/models", headers={"host": "evil.example"})
        assert (read.status_code, read.json()["code"]) == (403, "host_not_allowed")
        for kind in ("application/json", "text/plain"):
            headers = {"origin": "https://evil.example", "content-type": kind}
            made = await http.post("/threads", content=b"{}", headers=headers)
            assert (made.status_code, made.json()["code"]) == (403, "origin_not_allowed")
        assert (await http.post("/threads/count", json={})).json() == 0
        assert (await http.get("/health", headers={"host": "evil.example"})).status_code == 200


@pytest.mark.parametrize(
    ("server", "headers"),
    [
        ({"allowed_hosts": ["gateway"]}, {"host": "gateway:8000"}),
        ({"cors_origins": ["https://front.example"]}, {"origin": "https://front.example"}),
        ({"cors_origins": ["*"]}, {"origin": "https://any.example"}),
    ],
)
async def test_what_is_configured_may_call(
    tmp_path: Path, database_url: str, server: dict[str, Any], headers: dict[str, str]
) -> None:
    async with (
        serving(tmp_path, database_url, {"server": server}, work=False) as served,
        httpx.AsyncClient(base_url=served.api, headers=headers) as http,
    ):
        assert (await http.post("/threads", json={})).status_code == 200

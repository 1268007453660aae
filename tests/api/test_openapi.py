"""The document that describes the API is valid and true, and nothing that fits it breaks the service."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from jsonschema_rs import validator_for
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.api.application import build_app
from app.api.auth import OPEN_PATHS
from app.api.openapi import operations
from app.config import ServerSettings
from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# They stay open: with a thread that exists, the answer has no end.
ENDLESS = ("/stream", "/stream/events", "/wait", "/join", "/cancel")
CALL_SECONDS = 10
DOCUMENT = build_app(ServerSettings(), None).openapi()
ROUTES = [(path, method) for path, method, _ in operations(DOCUMENT)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Gateway]:
    async with (
        clone(database_template) as database_url,
        serving(tmp_path_factory.mktemp("openapi"), database_url) as gateway,
    ):
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def thread_id(served: Gateway) -> str:
    async with served.http() as http:
        return str((await http.post("/threads", json={})).json()["thread_id"])


def try_out(gateway: Gateway, path: str, method: str, thread_id: str, examples: int) -> None:
    """Ask for what fits the document, and sometimes for what does not, with ids that exist and that do not."""
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    operation = schema[path][method]
    known = {"thread_id": thread_id} if "{thread_id}" in path and not path.endswith(ENDLESS) else None

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples < 20,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(path_parameters=known))
    def ask(case: schemathesis.Case) -> None:
        try:
            response = case.call(base_url=gateway.url, session=session, timeout=CALL_SECONDS)
        except requests.exceptions.ReadTimeout:
            # A stream of a run that was put off.
            return
        case.validate_response(response, checks=CHECKS)

    with requests.Session() as session:
        try:
            ask()
        except Unsatisfiable:
            pytest.fail(f"nothing fits the description of {method} {path}")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("path", "method"), ROUTES)
async def test_what_fits_the_document_is_answered_as_it_says(
    served: Gateway, thread_id: str, path: str, method: str
) -> None:
    await asyncio.to_thread(try_out, served, path, method, thread_id, 4)


def test_it_is_a_valid_document_whose_references_lead_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1")
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert name in DOCUMENT["components"]["schemas"]
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert validator_for({**schema, "components": DOCUMENT["components"]}), name
    ids = [operation["operationId"] for _, _, operation in operations(DOCUMENT)]
    assert len(set(ids)) == len(ids)


def test_every_operation_says_what_its_errors_look_like_and_who_may_ask() -> None:
    for path, method, operation in operations(DOCUMENT):
        for kind in ("4XX", "5XX"):
            content = operation["responses"][kind]["content"]["application/json"]
            assert content["schema"]["$ref"] == "#/components/schemas/Error", (path, method)
        assert "422" not in operation["responses"]
        assert ("security" in operation) is (path.removeprefix("/api") not in OPEN_PATHS)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("folder", ["", "/api"])
async def test_the_page_for_people_loads_nothing_from_elsewhere(served: Gateway, folder: str) -> None:
    async with httpx.AsyncClient(base_url=served.url + folder) as http:
        page = await http.get("/docs")
        assert (await http.get("/openapi.json")).json() == DOCUMENT
        assert (await http.get("/redoc")).status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert not re.findall(r"<script|<link|src=|https?://", page.text)
    for path, _, _ in operations(DOCUMENT):
        assert path in page.text


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("path", "method"), ROUTES)
async def test_for_long(served: Gateway, thread_id: str, path: str, method: str) -> None:
    await asyncio.to_thread(try_out, served, path, method, thread_id, 100)

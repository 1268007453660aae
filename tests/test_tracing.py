"""Traces, as a collector receives them: whose spans belong under whose, and that no text of anybody is in them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.config import settings_from
from app.errors import ConfigError
from tests.support.provider import Provider
from tests.support.service import config, running

CANARY = "the-otter-swims-at-noon"
CALLER = "0af7651916cd43dd8448eb211c80319c"
LONG = " ".join(f"word{number}" for number in range(900))


@dataclass
class Collector:
    """An OTLP collector: keeps what it is sent."""

    spans: list[Span] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    raw: bytes = b""

    async def take(self, request: Request) -> Response:
        body = await request.body()
        self.raw += body
        self.keys.add(request.headers.get("x-collector-key", ""))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return Response(b"", media_type="application/x-protobuf")

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def above(self, span: Span) -> list[str]:
        """Names of the spans above, nearest first."""
        by_id = {one.span_id: one for one in self.spans}
        names = []
        while span.parent_span_id in by_id:
            span = by_id[span.parent_span_id]
            names.append(span.name)
        return names


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    collector = Collector()
    app = Starlette(routes=[Route("/v1/traces", collector.take, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(10):
            while not server.started:
                await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


async def test_a_run_is_one_trace_from_its_request_to_its_statements(
    tmp_path: Path, database_url: str
) -> None:
    async with collecting() as (collector, endpoint):
        settings = config(
            tracing={"endpoint": endpoint, "headers": {"x-collector-key": "$COLLECTOR_KEY"}},
            summarization={
                "trigger": {"type": "tokens", "value": 3000},
                "keep": {"type": "messages", "value": 2},
            },
            logging={"level": "info", "format": "json"},
        )
        async with (
            running(
                tmp_path, settings, environ={"COLLECTOR_KEY": "k-17"}, database_url=database_url
            ) as service,
            httpx.AsyncClient(base_url=service.api, timeout=60) as http,
        ):
            thread_id = (await http.post("/threads", json={})).json()["thread_id"]
            for text in (f"{CANARY} {LONG}", f"{CANARY} {LONG}", '/tool list_files {"path": "."}'):
                body = {
                    "assistant_id": "agent",
                    "input": {"messages": [{"role": "user", "content": text}]},
                }
                headers = {"traceparent": f"00-{CALLER}-b7ad6b7169203331-01"}
                answer = await http.post(f"/threads/{thread_id}/runs/wait", json=body, headers=headers)
                assert answer.status_code == 200
        lines = [json.loads(line) for line in service.output if line.startswith("{")]
    traced = [span for span in collector.spans if span.trace_id.hex() == CALLER]
    names = {span.name for span in traced}
    assert {
        "POST /threads/{thread_id}/runs/wait",
        "run",
        "chat demo",
        "tool list_files",
        "compaction",
    } <= names
    above = collector.above(collector.named("tool list_files")[0])
    assert "run" in above
    assert above[-1] == "POST /threads/{thread_id}/runs/wait"
    assert "run" in collector.above(collector.named("compaction")[0])
    assert any("run" in collector.above(span) for span in traced if span.name.startswith("SQL "))
    assert collector.keys == {"k-17"}
    assert CANARY.encode() not in collector.raw
    assert not [line for line in lines if CANARY in json.dumps(line)]


async def test_a_collector_that_is_away_costs_no_request(tmp_path: Path, database_url: str) -> None:
    settings = config(tracing={"endpoint": "http://127.0.0.1:9"})
    async with running(tmp_path, settings, database_url=database_url) as service:
        values = await service.client().runs.wait(
            None, "agent", input={"messages": [{"role": "user", "content": CANARY}]}
        )
    assert isinstance(values, dict)
    assert CANARY in json.dumps(values)
    assert CANARY not in "\n".join(service.output)


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"endpoint": "collector:4318"}, "tracing.endpoint"),
        ({"sample_ratio": 2}, "tracing.sample_ratio"),
        ({"headers": {"key": 7}}, "tracing.headers.key"),
    ],
)
def test_a_wrong_setting_is_named(section: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(named)):
        settings_from({"tracing": section})


def test_a_header_whose_variable_is_not_set_is_named() -> None:
    settings = settings_from({"tracing": {"headers": {"key": "$NOT_SET_ANYWHERE"}}})
    with pytest.raises(ConfigError, match=r"tracing\.headers\.key.*NOT_SET_ANYWHERE"):
        settings.tracing.sent_headers({})


async def test_no_text_is_logged_even_where_everything_is(
    tmp_path: Path, database_url: str, provider: Provider
) -> None:
    model = {
        "name": "stand-in",
        "use": "langchain_openai:ChatOpenAI",
        "model": "stand-in",
        "base_url": provider.base_url,
        "api_key": "none",
    }
    settings = config(models=[model], logging={"level": "debug", "format": "json"})
    async with (
        running(tmp_path, settings, database_url=database_url) as service,
        httpx.AsyncClient(base_url=service.api, timeout=60) as http,
    ):
        thread_id = (await http.post("/threads", json={})).json()["thread_id"]
        for text in (f"{CANARY} {LONG}", f"{CANARY} again"):
            body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}}
            answer = await http.post(f"/threads/{thread_id}/runs/wait", json=body)
            assert CANARY in answer.text
        await http.post(f"/threads/{thread_id}/compact", json={"instructions": CANARY})
        await http.get(f"/threads/{thread_id}/messages/search", params={"q": CANARY})
    lines = [json.loads(line) for line in service.output if line.startswith("{")]
    assert any(line["level"] == "debug" for line in lines)
    assert not [line for line in service.output if CANARY in line]

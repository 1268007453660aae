"""What /metrics tells of runs, models, webhooks, streams and the database, as Prometheus reads it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from app.persistence.compactions import CompactionRecord
from app.persistence.token_usage import ModelCall
from app.services.compaction.metrics import CompactionMetrics
from tests.support.gateway import Gateway, serving
from tests.support.service import DEMO_MODEL

CANARY = "the-heron-stands-in-the-reeds"
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(gateway: Gateway) -> Samples:
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        text = (await http.get("/metrics")).text
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    assert all(family.documentation for family in families)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"threadkeep_{name}", frozenset(labels.items())]


async def run(client: Any, thread_id: str, text: str, **options: Any) -> None:
    question = {"messages": [{"role": "user", "content": text}]}
    async for _ in client.runs.stream(thread_id, "agent", input=question, **options):
        pass


async def test_runs_are_counted_by_graph_and_status_and_timed(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await run(client, thread_id, CANARY, stream_mode="messages-tuple")
    await run(client, thread_id, f"/error {CANARY}", stream_mode="messages-tuple")
    samples = await scraped(gateway)
    assert value(samples, "runs_total", graph="agent", status="success") == 1
    assert value(samples, "runs_total", graph="agent", status="error") == 1
    for name in ("run_seconds", "run_first_token_seconds"):
        assert value(samples, f"{name}_sum", graph="agent") > 0
    assert value(samples, "run_seconds_count", graph="agent") == 2
    # One of them never said anything.
    assert value(samples, "run_first_token_seconds_count", graph="agent") == 1
    assert value(samples, "run_wait_seconds_count") == 2
    assert value(samples, "runs_executing") == 0


async def test_model_calls_are_counted_by_model_and_caller(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await run(client, thread_id, "hello")
    samples = await scraped(gateway)
    agent = {"model": "demo", "caller": "lead_agent"}
    assert value(samples, "model_calls_total", **agent) == 1
    assert value(samples, "model_tokens_total", **agent, direction="input") > 0
    assert value(samples, "model_tokens_total", **agent, direction="output") > 0


def test_a_compaction_is_charged_to_the_model_that_wrote_its_summary() -> None:
    calls: list[ModelCall] = []
    metrics = CompactionMetrics(CollectorRegistry(), calls.append)
    usage = {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}
    written = CompactionRecord(
        "c-1", "t-1", None, "manual", "committed", tokens_before=9, model_name="demo", usage=usage
    )
    failed = CompactionRecord(
        "c-2", "t-1", None, "auto", "failed", models_tried=[{"name": "first"}, {"name": "last"}], usage=usage
    )
    free = CompactionRecord("c-3", "t-1", None, "auto", "skipped", reason="nothing_to_compact")
    for record in (written, failed, free):
        metrics.observe(record, record.status)
    assert [(call.model_name, call.caller, call.total_tokens) for call in calls] == [
        ("demo", "compaction", 77),
        ("last", "compaction", 77),
    ]


async def test_what_waits_what_runs_and_who_follows_it_is_told(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    begun, seen = asyncio.Event(), asyncio.Event()

    async def follow() -> None:
        question: Any = {"messages": [{"role": "user", "content": "/slow 400"}]}
        async for part in client.runs.stream(
            thread_id, "agent", input=question, stream_mode="messages-tuple"
        ):
            if part.event == "messages":
                begun.set()

    async def watch() -> None:
        async for _ in await client.threads.join_stream(thread_id):
            seen.set()

    tasks = [asyncio.create_task(follow()), asyncio.create_task(watch())]
    await begun.wait()
    await seen.wait()
    await client.runs.create(thread_id, "agent", input={"messages": []}, multitask_strategy="enqueue")
    delayed = (await client.threads.create())["thread_id"]
    await client.runs.create(delayed, "agent", input={"messages": []}, after_seconds=3600)
    samples = await scraped(gateway)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert value(samples, "runs_open", state="running") == value(samples, "runs_executing") == 1
    assert value(samples, "runs_open", state="waiting") == 1
    assert 0 < value(samples, "runs_oldest_waiting_seconds") < 60
    assert value(samples, "streams", kind="thread") == 1
    assert value(samples, "streams", kind="run") >= 1


async def test_connections_of_the_database_are_told_and_a_database_that_is_away_takes_only_the_queue(
    gateway: Gateway,
) -> None:
    samples = await scraped(gateway)
    states = [value(samples, "db_connections", state=state) for state in ("idle", "in_use")]
    assert sum(states) >= 1
    assert value(samples, "db_waiting") == 0
    await gateway.core.database.pool.close()
    samples = await scraped(gateway)
    assert ("threadkeep_runs_open", frozenset({("state", "waiting")})) not in samples
    assert value(samples, "runs_executing") == 0


async def test_attempts_at_webhooks_are_counted(
    tmp_path: Path, database_url: str, unused_tcp_port: int
) -> None:
    webhooks = {"allowed_hosts": ["127.0.0.1"], "attempts": 2, "backoff_s": 0.05}
    async with serving(tmp_path, database_url, {"webhooks": webhooks}) as gateway:
        # Nobody is there.
        await run(
            gateway.client(),
            str(uuid.uuid4()),
            "hello",
            if_not_exists="create",
            webhook=f"http://127.0.0.1:{unused_tcp_port}/hook",
        )
        outcome = ("threadkeep_webhook_attempts_total", frozenset({("outcome", "given_up")}))
        async with asyncio.timeout(10):
            while (samples := await scraped(gateway)).get(outcome) != 1:
                await asyncio.sleep(0.05)
    assert value(samples, "webhook_attempts_total", outcome="tried_again") == 1


async def test_neither_text_nor_ids_are_labels(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await run(client, thread_id, CANARY)
    samples = await scraped(gateway)
    values = {text for _, labels in samples for _, text in labels}
    assert DEMO_MODEL["name"] in values
    assert not any(CANARY in text or thread_id in text for text in values)

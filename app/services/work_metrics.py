"""Prometheus metrics of runs, model calls and webhooks. Labels are names of the configuration and fixed words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.persistence.runs import Run
from app.persistence.token_usage import ModelCall

RUN_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
SOON_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
AFTER_KEY = "after_seconds"
"""In the kwargs of a run: how long it was to wait in any case."""
_TOKEN_EVENT = "messages"

Sending = Literal["delivered", "tried_again", "given_up"]


class RunClock:
    """Times one execution of a run."""

    def __init__(self, first_token: Histogram) -> None:
        self._begun = time.monotonic()
        self._first_token: Histogram | None = first_token

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def saw(self, event: str) -> None:
        """The graph produced an event of this name."""
        if self._first_token and event.startswith(_TOKEN_EVENT):
            self._first_token.observe(self.seconds)
            self._first_token = None


class RunMetrics:
    """What this process executes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = Counter(
            "threadkeep_runs_total",
            "Runs that ended here, by graph and status",
            ["graph", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "threadkeep_run_seconds",
            "Seconds that a worker was at a run, waiting not included",
            ["graph"],
            buckets=RUN_SECONDS,
            registry=registry,
        )
        self._first_token = Histogram(
            "threadkeep_run_first_token_seconds",
            "Seconds from when a worker took a run up until its first token, for runs whose tokens are streamed",
            ["graph"],
            buckets=SOON_SECONDS,
            registry=registry,
        )
        self._waited = Histogram(
            "threadkeep_run_wait_seconds",
            "Seconds that a run waited for a worker and for its thread, delayed runs not included",
            buckets=SOON_SECONDS,
            registry=registry,
        )
        self._active = Gauge("threadkeep_runs_executing", "Runs at work in this process", registry=registry)

    @contextmanager
    def executing(self, run: Run) -> Iterator[RunClock]:
        graph = run.kwargs["graph_name"]
        if run.attempt == 1 and not run.kwargs.get(AFTER_KEY):
            # Both are the database's, the second from when the run was taken up.
            self._waited.observe((run.updated_at - run.created_at).total_seconds())
        clock = RunClock(self._first_token.labels(graph))
        with self._active.track_inprogress():
            yield clock
        self._seconds.labels(graph).observe(clock.seconds)

    def ended(self, run: Run, status: str) -> None:
        self._ended.labels(run.kwargs["graph_name"], status).inc()


class ModelMetrics:
    """Calls of chat models, as they are noted."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "threadkeep_model_calls_total",
            "Calls of chat models, by model and by who made them",
            ["model", "caller"],
            registry=registry,
        )
        self._tokens = Counter(
            "threadkeep_model_tokens_total",
            "Tokens that providers reported, by model, caller and direction (input, output)",
            ["model", "caller", "direction"],
            registry=registry,
        )

    def called(self, call: ModelCall) -> None:
        self.add(call.model_name, call.caller, call.input_tokens, call.output_tokens)

    def add(self, model: str, caller: str, input_tokens: int, output_tokens: int) -> None:
        self._calls.labels(model, caller).inc()
        self._tokens.labels(model, caller, "input").inc(input_tokens)
        self._tokens.labels(model, caller, "output").inc(output_tokens)


class WebhookMetrics:
    """What became of attempts to notify a webhook."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sent = Counter(
            "threadkeep_webhook_attempts_total",
            "Attempts to notify webhooks, by what became of them (delivered, tried_again, given_up)",
            ["outcome"],
            registry=registry,
        )

    def count(self, outcome: Sending) -> None:
        self._sent.labels(outcome).inc()

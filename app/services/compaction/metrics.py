"""Prometheus metrics of compaction."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from app.persistence.compactions import CompactionRecord
from app.persistence.token_usage import ModelCall

TOKENS = (500, 2_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_000_000)
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120)


class CompactionMetrics:
    """Counts outcomes, and measures those that committed. Tokens count the whole request."""

    def __init__(self, registry: CollectorRegistry, noted: Callable[[ModelCall], None] | None = None) -> None:
        """``noted`` is told what each one used, as if it was one call."""
        self._noted = noted
        self._outcomes = Counter(
            "threadkeep_compactions_total",
            "Compactions by kind, outcome (committed, skipped, failed) and reason",
            ["kind", "outcome", "reason"],
            registry=registry,
        )
        self._before = Histogram(
            "threadkeep_compaction_tokens_before",
            "Tokens of the request before",
            buckets=TOKENS,
            registry=registry,
        )
        self._after = Histogram(
            "threadkeep_compaction_tokens_after",
            "Tokens of the request after",
            buckets=TOKENS,
            registry=registry,
        )
        self._coverage = Histogram(
            "threadkeep_compaction_coverage",
            "Characters read / characters removed",
            buckets=(0.25, 0.5, 0.75, 0.9, 0.99, 1.0),
            registry=registry,
        )
        self._seconds = Histogram(
            "threadkeep_compaction_seconds",
            "Duration of whole compactions",
            buckets=SECONDS,
            registry=registry,
        )
        self._fallbacks = Counter(
            "threadkeep_compaction_fallbacks_total",
            "Committed summaries that the first candidate did not write",
            ["kind"],
            registry=registry,
        )

    def observe(self, record: CompactionRecord, outcome: str) -> None:
        self._outcomes.labels(record.kind, outcome, record.reason or "").inc()
        if self._noted and record.usage.get("total_tokens"):
            self._noted(_call(record))
        if outcome != "committed" or record.kind in ("undo", "redo"):
            return
        self._before.observe(record.tokens_before)
        self._after.observe(record.tokens_after or 0)
        self._coverage.observe(record.coverage or 0.0)
        self._seconds.observe(record.duration_ms / 1000)
        if len(record.models_tried) > 1:
            self._fallbacks.labels(record.kind).inc()


def _call(record: CompactionRecord) -> ModelCall:
    tried = [str(model.get("name")) for model in record.models_tried]
    return ModelCall(
        call_id=record.compaction_id,
        thread_id=record.thread_id,
        run_id=record.run_id,
        caller="compaction",
        model_name=record.model_name or next(reversed(tried), "unknown"),
        message_id=None,
        input_tokens=record.usage.get("input_tokens", 0),
        output_tokens=record.usage.get("output_tokens", 0),
        total_tokens=record.usage["total_tokens"],
    )

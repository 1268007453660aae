"""Traces by OpenTelemetry: what a run spent its time on. Names, ids and figures only, never the text of anybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACER = trace.get_tracer("threadkeep")
_PROPAGATOR = TraceContextTextMapPropagator()
_TRACES_PATH = "/v1/traces"
DELIVERY_SECONDS = 3
"""How long a delivery is tried, and so how long a collector that is away can keep the process from ending."""

Attribute = str | int | float | bool


def set_up_tracing(
    endpoint: str, headers: Mapping[str, str], service_name: str, version: str, sample_ratio: float
) -> TracerProvider:
    """Send spans to an OTLP collector (``endpoint`` as in OTEL_EXPORTER_OTLP_ENDPOINT). For the start of the process;
    to be shut down at its end, which sends what is left."""
    url = endpoint if endpoint.endswith(_TRACES_PATH) else endpoint.rstrip("/") + _TRACES_PATH
    provider = TracerProvider(
        resource=Resource.create({SERVICE_NAME: service_name, SERVICE_VERSION: version}),
        sampler=ParentBasedTraceIdRatio(sample_ratio),
    )
    exporter = OTLPSpanExporter(url, headers=dict(headers), timeout=DELIVERY_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, Attribute | None],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: Mapping[str, str] | None = None,
) -> Iterator[Span]:
    """A span around the block. ``parent`` are trace headers of whoever caused it; else the current span is its parent.

    An error that leaves the block marks it by its class alone: texts of errors may repeat a request.
    """
    known = {key: value for key, value in attributes.items() if value is not None}
    context = _PROPAGATOR.extract(dict(parent)) if parent else None
    with TRACER.start_as_current_span(
        name, context, kind, known, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except BaseException as error:
            mark_failed(current, error)
            raise


def mark_failed(current: Span, error: BaseException) -> None:
    current.set_attribute("error.type", type(error).__name__)
    current.set_status(Status(StatusCode.ERROR))


def is_traced() -> bool:
    """Somebody records what is done here."""
    return trace.get_current_span().is_recording()


def trace_headers() -> dict[str, str]:
    """What another process needs to go on with this trace; empty when nobody records it."""
    carrier: dict[str, str] = {}
    if is_traced():
        _PROPAGATOR.inject(carrier)
    return carrier

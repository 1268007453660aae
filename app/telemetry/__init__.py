"""What the service tells of itself: logs and traces."""

from app.telemetry.logs import log_scope, note_scope, redact, set_up_logging
from app.telemetry.traces import is_traced, mark_failed, set_up_tracing, span, trace_headers

__all__ = [
    "is_traced",
    "log_scope",
    "mark_failed",
    "note_scope",
    "redact",
    "set_up_logging",
    "set_up_tracing",
    "span",
    "trace_headers",
]

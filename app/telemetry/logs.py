"""Logging: set up once by the process; every line names the request, the thread and the run that it belongs to."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

from app.redaction import Redactor

IDS = ("request_id", "thread_id", "run_id")
_SCOPE: ContextVar[Mapping[str, str]] = ContextVar("log_scope", default={})  # noqa: B039 - never changed, only replaced
_TEXT = "%(asctime)s %(levelname)-7s %(name)s%(scope)s: %(message)s"
# These repeat what our own log says, or say every statement and call.
_QUIET = ("httpx", "httpcore", "psycopg.pool", "uvicorn.access", "procrastinate", "openai", "alembic", "mcp")


# Besides the known kinds: a log line or an error is read for its sense, not for its values, so that a doubt is enough.
_DOUBTFUL = (
    (re.compile(r"(://[^\s:/@]*):[^\s/@]+@"), r"\1:***@"),
    (re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|lsv2)[-_][\w-]{12,}"), "***"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), r"\1 ***"),
    (
        re.compile(
            r"(api[-_]?key|access[-_]?token|(?<!\[)secret|(?<!\[secret:)password)(['\"]?\s*[:=]\s*['\"]?)[^\s'\",}&\[]+",
            re.IGNORECASE,
        ),
        r"\1\2***",
    ),
)


_KNOWN = Redactor()


def redact(text: str, redactor: Redactor = _KNOWN) -> str:
    """The text without what looks like a key, a token or a password. For logs and for errors that clients
    see. ``redactor`` knows further kinds.
    """
    text = redactor.text(text)
    for pattern, replacement in _DOUBTFUL:
        text = pattern.sub(replacement, text)
    return text


def set_up_logging(level: str, style: Literal["text", "json"], redactor: Redactor = _KNOWN) -> None:
    """Log to stderr, every line with the ids of what it belongs to. For the start of the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_scope)
    handler.setFormatter(JsonLines(redactor) if style == "json" else TextLines(_TEXT, redactor))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


@contextmanager
def log_scope(**ids: str) -> Iterator[None]:
    """Everything logged inside belongs to these, by the names in ``IDS``."""
    token = _SCOPE.set({**_SCOPE.get(), **ids})
    try:
        yield
    finally:
        _SCOPE.reset(token)


def note_scope(**ids: str) -> None:
    """What this task logs from here on belongs to these, too. For a task that serves one request only."""
    _SCOPE.set({**_SCOPE.get(), **ids})


class TextLines(logging.Formatter):
    """Lines for people, without secrets."""

    def __init__(self, form: str, redactor: Redactor = _KNOWN) -> None:
        super().__init__(form)
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record), self._redactor)


class JsonLines(logging.Formatter):
    """One JSON object a line, without secrets: time, level, logger, message, ids, error."""

    def __init__(self, redactor: Redactor = _KNOWN) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage(), self._redactor),
        }
        line |= _SCOPE.get()
        if record.exc_info:
            line["error"] = redact(self.formatException(record.exc_info), self._redactor)
        return json.dumps(line, ensure_ascii=False, default=str)


def _add_scope(record: logging.LogRecord) -> bool:
    """A line of text names the request by its id alone, since it stands in most lines."""
    scope = _SCOPE.get()
    named = [scope["request_id"]] if "request_id" in scope else []
    named += [f"{name.removesuffix('_id')}={scope[name]}" for name in IDS[1:] if name in scope]
    record.scope = f" [{' '.join(named)}]" if named else ""
    return True

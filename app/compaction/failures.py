"""What a failed model call means for the next one: try again, after how long, and how to name it (rule E3).

Errors are judged by what they carry (status, class names), so that no provider's package is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from langchain_core.exceptions import ContextOverflowError

from app.compaction.plain import plain
from app.compaction.types import Redact, unchanged
from app.redaction import Redactor

_TRANSIENT_STATUS = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505}
_TRANSIENT_NAMES = re.compile(
    r"Connect(?:ion)?(?:Error|Timeout)$|(?:Read|Write|Pool|Connect|API|Gateway)Timeout|(?:Read|Write|Close)Error$"
    r"|RemoteProtocolError|RateLimit|Throttl|TooManyRequests|Overloaded|ServiceUnavailable|InternalServerError"
    r"|ModelNotReady|ServerDisconnected|IncompleteRead"
)
# A used-up account answers 429 as well, and does so a second later too.
_LASTING_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_SECRET = re.compile(
    r"(?i:bearer|basic)\s+\S+|\b(?:sk|pk|rk|key|AIza|gsk|xai|hf)[-_][\w*-]{6,}|(?<=://)[^/\s@]+@|[\w+/-]{32,}={0,2}"
)
_MAX_REASON = 240
_KNOWN = Redactor()
_STATUS_NAMES = ("status_code", "http_status", "status", "code")


def is_context_overflow(error: BaseException) -> bool:
    """LangChain's own word for a request that was too long; callers may inject a sharper classifier."""
    return isinstance(error, ContextOverflowError)


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later: 429, 5xx, a lost or refused connection."""
    if _code(error) in _LASTING_CODES:
        return False
    status = _status(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return any(_TRANSIENT_NAMES.search(kind.__name__) for kind in type(error).__mro__)


def retry_after_s(error: BaseException) -> float | None:
    """Seconds the provider asks to wait (Retry-After in seconds or as a date, retry-after-ms); None without."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after") or headers.get("Retry-After")
    seconds = _number(value)
    return seconds if seconds is not None else _until(value)


def describe(error: BaseException, redact: Redact = unchanged) -> str:
    """Class name and first line of an error, shortened, without anything that looks like a secret. ``redact`` knows
    further kinds."""
    # All of it, and before it is cut: half a key does not look like one, and a private key has many lines.
    text = _KNOWN.text(redact(plain(str(error)))).strip()
    text = _SECRET.sub("[…]", next(iter(text.splitlines()), ""))
    shown = text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    found = (getattr(source, name, None) for source in (error, response) for name in _STATUS_NAMES)
    return next((status for status in found if isinstance(status, int)), None)


def _code(error: BaseException) -> str:
    return str(getattr(error, "code", ""))


def _number(value: Any) -> float | None:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return None


def _until(value: Any) -> float | None:
    """Seconds from now to an HTTP date."""
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())

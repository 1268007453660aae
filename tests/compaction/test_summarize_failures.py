"""What a failed call means for the next one, and how it is named (rule E3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import openai
import pytest
from langchain_core.exceptions import ContextOverflowError

from app.compaction.failures import describe, is_context_overflow, is_transient, retry_after_s
from tests.support.models import StatusError

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def answered(status: int, headers: dict[str, str] | None = None) -> openai.APIStatusError:
    response = httpx.Response(status, headers=headers, request=REQUEST)
    return openai.APIStatusError("said no", response=response, body=None)


@pytest.mark.parametrize(
    "error",
    [
        *(answered(status) for status in (408, 429, 500, 502, 503, 504, 529)),
        openai.APIConnectionError(request=REQUEST),
        openai.APITimeoutError(request=REQUEST),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("peer closed connection"),
        ConnectionResetError(),
        TimeoutError(),
        type("ThrottlingException", (Exception,), {})(),
    ],
)
def test_rate_limits_server_errors_and_lost_connections_are_transient(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        *(answered(status) for status in (400, 401, 403, 404, 413, 422, 501)),
        StatusError(429, code="insufficient_quota"),
        ValueError("429 in a text is no status"),
        ContextOverflowError("too long"),
    ],
)
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_transient(error)


def test_langchains_own_overflow_is_recognised() -> None:
    assert is_context_overflow(ContextOverflowError("too long"))
    assert not is_context_overflow(ValueError("too long"))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(answered(429, headers)) == seconds


def test_retry_after_may_be_a_date() -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert retry_after_s(answered(503, {"retry-after": when})) == pytest.approx(30, abs=2)


def test_an_error_without_a_response_asks_for_nothing() -> None:
    assert retry_after_s(ValueError()) is None


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop",
        "Bearer eyJhbGciOi.payload.sig",
        "https://user:pass@example.org/",
        "0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_a_description_holds_no_secret(secret: str) -> None:
    text = describe(ValueError(f"bad key {secret} was sent"))
    assert text.startswith("ValueError: bad key ")
    assert not any(part in text for part in ("abcdefgh", "eyJ", "pass", "01234567"))


def test_a_description_is_one_short_line() -> None:
    text = describe(ValueError("first line\n" + "second line with what the user said " * 100))
    assert text == "ValueError: first line"
    assert len(describe(ValueError("many words " * 100))) < 300
    assert describe(TimeoutError()) == "TimeoutError"

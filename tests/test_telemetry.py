"""The log: whose request a line belongs to, and what is never in it."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from app.telemetry import log_scope, redact, set_up_logging
from app.telemetry.logs import JsonLines


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgresql://ann:hunter22@localhost:5432/db", "hunter22"),
        ("Incorrect API key provided: sk-proj-abcdefghijklmnop.", "abcdefghijklmnop"),
        ("authorization: Bearer eyJhbGciOi.J9", "eyJhbGciOi"),
        ("api_key='abc123def'", "abc123def"),
        ('{"password": "hunter22"}', "hunter22"),
        ("?api-key=abc123def&x=1", "abc123def"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact(text)
    assert "***" in redact(text) or "[secret:" in redact(text)


@pytest.mark.parametrize(
    "text", ["tokens: 32000", "http://127.0.0.1:8000/api", "the task-force of 2024", "a password is needed"]
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def record(message: str, **extra: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "app.test", **extra})


def test_a_json_line_names_its_request() -> None:
    with log_scope(request_id="r-1"):
        inside = json.loads(JsonLines().format(record("hello")))
    outside = json.loads(JsonLines().format(record("hello")))
    assert inside["request_id"] == "r-1"
    assert inside["message"] == "hello"
    assert inside["level"] == "info"
    assert "request_id" not in outside


def test_a_json_line_with_an_error_is_one_line_without_secrets() -> None:
    try:
        raise ValueError("postgresql://ann:hunter22@localhost/db")
    except ValueError:
        line = JsonLines().format(record("failed", exc_info=sys.exc_info()))
    assert "\n" not in line
    assert "hunter22" not in line
    assert "ValueError" in json.loads(line)["error"]


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_process_logs_to_stderr_with_the_request_in_every_line(
    capsys: pytest.CaptureFixture[str], style: str
) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        set_up_logging("info", style)  # type: ignore[arg-type]
        with log_scope(request_id="r-2"):
            logging.getLogger("app.test").info("hello")
            logging.getLogger("httpx").info("too much")
    finally:
        root.handlers[:], level = before
        root.setLevel(level)
    written = capsys.readouterr().err
    assert "hello" in written
    assert "r-2" in written
    assert "too much" not in written

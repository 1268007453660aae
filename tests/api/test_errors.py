"""Which error becomes which status."""

from __future__ import annotations

import json

import psycopg
import pytest
from procrastinate.exceptions import ConnectorException
from psycopg_pool import PoolTimeout

from app import errors
from app.api.errors import error_response, status_of


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.InvalidInput("x"), 422, "invalid_request"),
        (errors.BadRequest("x"), 400, "bad_request"),
        (errors.NotFound("x"), 404, "not_found"),
        (errors.Conflict("x", code="thread_exists"), 409, "thread_exists"),
        (errors.ThreadBusy("x"), 409, "thread_busy"),
        (errors.ThreadInterrupted("x"), 409, "thread_interrupted"),
        (errors.CompactionDisabled("x"), 409, "compaction_disabled"),
        (errors.PayloadTooLarge("x"), 413, "payload_too_large"),
        (errors.SummaryGenerationError("x"), 502, "summary_generation_failed"),
        (errors.SummaryTimeout("x"), 504, "summary_timeout"),
        (errors.ModelUnavailable("x"), 502, "model_unavailable"),
        (errors.ContextOverflow("x"), 502, "context_overflow"),
        (errors.DatabaseError("x"), 503, "database_unavailable"),
        (errors.ThreadkeepError("x"), 500, "internal_error"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_of_ours_has_its_status_and_keeps_its_sentence(
    error: errors.ThreadkeepError, status: int, code: str
) -> None:
    response = error_response(error)
    assert status_of(error) == response.status_code == status
    assert json.loads(bytes(response.body)) == {"detail": "x", "code": code}


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("host secret refused"),
        PoolTimeout("secret"),
        psycopg.InterfaceError("secret"),
    ],
)
def test_a_lost_database_is_503_with_a_time_to_retry_and_without_its_text(error: Exception) -> None:
    response = error_response(error)
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert b"secret" not in response.body


def test_a_lost_database_behind_an_error_of_the_queue_is_503_as_well() -> None:
    error = ConnectorException("secret")
    error.__cause__ = psycopg.OperationalError("secret")
    assert error_response(error).status_code == 503
    assert error_response(ConnectorException("secret")).status_code == 500


def test_a_value_that_the_database_refuses_is_the_fault_of_the_request() -> None:
    assert error_response(psycopg.DataError("secret")).status_code == 422


def test_an_error_nobody_expected_says_nothing_of_itself() -> None:
    response = error_response(RuntimeError("secret"))
    assert response.status_code == 500
    assert b"secret" not in response.body

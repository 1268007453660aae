"""What can go wrong with a provider, by name. ``outcome`` says what a caller gets from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.support.answers import (
    Behaviour,
    Drop,
    Echo,
    Fail,
    HalfStream,
    Hang,
    InvalidJson,
    Reply,
    answer_of,
)
from tests.support.overflow_shapes import OVERFLOWS

Outcome = Literal["error", "transient", "silence", "overflow", "unacceptable", "acceptable"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One way to misbehave.

    ``error``: the call raises, for good. ``transient``: it raises, and another try may work. ``silence``: it
    never returns. ``overflow``: it raises a context overflow. ``unacceptable``: it returns something that is
    no summary. ``acceptable``: it returns a summary, if a strange one.
    """

    name: str
    answer: Behaviour
    outcome: Outcome

    def __str__(self) -> str:
        return self.name


def _error(message: str, type_: str, code: str | None = None) -> dict[str, object]:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


_SUMMARY = (
    "The user wants a weekly report. The draft is in report.md; the figures for May are still missing. "
)
_LONG = "".join(f"{number}. Step {number} is done.\n" for number in range(3_000))[:50_000]
_BUSY = _error("Rate limit reached.", "requests", "rate_limit_exceeded")
_DOWN = _error("The server had an error.", "server_error")

FAILURES: tuple[Scenario, ...] = (
    Scenario(
        "401", Fail(401, _error("Incorrect API key.", "invalid_request_error", "invalid_api_key")), "error"
    ),
    Scenario("403", Fail(403, _error("Not allowed.", "permission_error")), "error"),
    Scenario("404", Fail(404, _error("No such model.", "invalid_request_error", "model_not_found")), "error"),
    Scenario("429", Fail(429, _BUSY), "transient"),
    Scenario("429-retry-after", Fail(429, _BUSY, {"retry-after": "1"}), "transient"),
    Scenario("500", Fail(500, _DOWN), "transient"),
    Scenario("503", Fail(503, "upstream connect error"), "transient"),
    Scenario("dropped-connection", Drop(), "transient"),
    Scenario("half-a-stream", HalfStream(_SUMMARY), "transient"),
    Scenario("invalid-json", InvalidJson(), "error"),
    Scenario("never-replies", Hang(), "silence"),
    Scenario("stops-in-mid-stream", Hang(after=_SUMMARY), "silence"),
)

REPLIES: tuple[Scenario, ...] = (
    Scenario("blank", Reply(""), "unacceptable"),
    Scenario("no-content", Reply(None), "unacceptable"),
    Scenario("whitespace", Reply(" \n\t\u00a0\u200b\n "), "unacceptable"),
    Scenario("refusal", Reply(None, refusal="I'm sorry, I can't help with that."), "unacceptable"),
    Scenario("refusal-in-words", Reply("I'm sorry, but I can't assist with that request."), "unacceptable"),
    Scenario("content-filter", Reply("The user wants", finish_reason="content_filter"), "unacceptable"),
    Scenario("cut-off", Reply(_SUMMARY * 3 + "The next st", finish_reason="length"), "unacceptable"),
    Scenario("loop", Reply("I will now summarise the conversation. " * 200), "unacceptable"),
    Scenario("echo", Echo(), "unacceptable"),
    Scenario("thoughts-only", Reply("<think>They ask for a summary. What matters?</think>"), "unacceptable"),
    Scenario("thoughts-first", Reply(f"<think>What matters here?</think>\n{_SUMMARY}"), "acceptable"),
    Scenario("fifty-thousand-characters", Reply(_LONG), "acceptable"),
)

OVERFLOW_SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(f"overflow-{shape.name}", answer_of(shape), "overflow") for shape in OVERFLOWS
)

SCENARIOS: tuple[Scenario, ...] = FAILURES + REPLIES + OVERFLOW_SCENARIOS

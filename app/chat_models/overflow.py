"""Does a failed model call mean that the request was too long for the model? (rule E7)

langchain-openai maps only some of OpenAI's own sentences to ``ContextOverflowError`` and nothing of vLLM or
llama.cpp, so errors are judged here by what they carry: HTTP status, ``code``, ``type``, ``param`` and the
sentences of their body. Attributes are read by name; no provider's package is needed.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.exceptions import ContextOverflowError

from app.errors import ContextOverflow

_MAX_LINKS = 32
_MAX_DEPTH = 8
# A provider's sentence is short; what stands further back in a long text is likelier an echo of the request.
_MAX_TEXT = 2_000

# Only what a server says about the error is read: never `input`, `failed_generation` and the like, which echo
# the request, so a conversation about overflows cannot be taken for one.
_TEXT_KEYS = frozenset(
    {
        *("message", "msg", "detail", "details", "reason", "description", "body"),
        *("error", "errors", "error_message", "error_msg", "error_description", "errormessage", "innererror"),
        *("metadata", "raw"),  # OpenRouter's envelope around another provider's body
    }
)
_WORD_KEYS = frozenset({"code", "type", "status", "__type", "error_type", "error_code"})

_OVERFLOW_WORDS = frozenset(
    {
        "context_exceeded",
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "request_too_large",
        "tokens_limit_reached",
    }
)
_TOO_MANY_OR_TOO_LONG = frozenset({"array_above_max_length", "string_above_max_length"})
_OTHER_WORDS = frozenset(
    {
        "authentication_error",
        "content_filter",
        "content_policy_violation",
        "insufficient_quota",
        "invalid_api_key",
        "overloaded_error",
        "permission_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "resource_exhausted",
        "throttlingexception",
        "tokens",  # the `type` of OpenAI's and Groq's tokens-per-minute limit
    }
)

_OVERFLOW_TEXT = re.compile(
    r"""
      maximum\ context\ length | maximum\ model\ length | maximum\ prompt\ length\ is\ \d
    | context_length_exceeded | exceed_context_size_error | contextwindowexceeded
    | exceed(?:s|ed|ing)?\b.{0,40}\bcontext\ (?:window|length|size|limit)
    | context\ (?:window|length|size|limit)\b.{0,20}\bexceed(?:s|ed)\b
    | (?:longer|greater|larger)\ than\ the\ (?:model's\ )?context\ length
    | context\ length\ is\ only | reached\ context\ length\ of\ \d | when\ context\ the\ overflows
    | (?:prompt|input)\ (?:is\ )?too\ long\b | prompt\ exceeds\ max | length\ of\ all\ messages\ is\ too\ long
    | reduce\ the\ length\ of\ the\ (?:input|messages|prompt)
    | input\ length\b.{0,20}\bexceeds\b | range\ of\ input\ length\ should\ be
    | input\ tokens?\ (?:count\ )?.{0,20}exceed | input\ token\ count\b.{0,40}only\ supports
    | too\ many\ (?:input\ |prompt\ )?tokens\b.{0,60}(?:exceed|max\ input|limit)
    | prompt\ token\ count\ of\ \d+\ exceeds | exceeded\ model\ token\ limit
    | must\ be\ less\ than\ max_seq_len | max_tokens\ must\ be\ at\ least\ 1,\ got\ -\d
    | `?inputs`?\ (?:tokens\ \+\ `?max_new_tokens`?\ must\ be\ <= | must\ have\ less\ than\ \d+\ tokens)
    | body\ too\ large\ for\b.{0,80}\btokens
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_RATE_TEXT = re.compile(
    r"tokens per (?:min|hour|day)|\b[tr]pm\b|rate.?limit|throttl|quota|too many requests|please wait",
    re.IGNORECASE,
)
# The room asked for the reply is as large as the whole window: no shorter history cures that.
_REPLY_TEXT = (
    re.compile(r"context length is (?P<window>\d+).*?(?P<reply>\d+) in the (?:completion|output)", re.DOTALL),
    re.compile(r"is too large: (?P<reply>\d+).*?context length is (?P<window>\d+)", re.DOTALL),
    re.compile(r"context limit: \d+ \+ (?P<reply>\d+) > (?P<window>\d+)"),
)
_NO_ANSWER = ("CancelledError", "ConnectionError", "TimeoutError", "TransportError")


def is_context_overflow(error: BaseException) -> bool:
    """True when a model call failed because its input was too long, so that a shorter history would cure it.

    Rule E7. Counts as overflow: the context window, a provider's limit on the prompt or on the number or size
    of messages, and HTTP 413. Does not count: rate limits and quotas (also those that speak of tokens), a
    reply reservation that alone fills the window, output limits, refused keys, unknown models, connection
    failures, and any error about another part of the request. An error that says nothing is judged by what it
    was raised from; an error that names another reason ends that chain. Never raises.
    """
    waiting: deque[BaseException] = deque([error])
    seen: set[int] = set()
    while waiting and len(seen) < _MAX_LINKS:
        link = waiting.popleft()
        if id(link) in seen:
            continue
        seen.add(id(link))
        verdict = _judge(link)
        if verdict:
            return True
        if verdict is None:
            waiting.extend(_behind(link))
    return False


def _behind(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions
    if error.__cause__ is not None:
        yield error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__


def _judge(error: BaseException) -> bool | None:
    """True or False when this error alone decides, None when what stands behind it has to."""
    facts = _facts(error)
    if facts.speaks_of_something_else():
        return False
    typed = isinstance(error, (ContextOverflowError, ContextOverflow))
    if typed or facts.status == 413 or facts.speaks_of_length():
        return not facts.reply_fills_the_window()
    return False if _never_answered(error) else None


def _never_answered(error: BaseException) -> bool:
    return any(kind.__name__.endswith(_NO_ANSWER) for kind in type(error).__mro__)


@dataclass(slots=True)
class _Facts:
    """What one error says: HTTP status, code and type words in lower case, blamed parameters, sentences."""

    status: int | None = None
    words: set[str] = field(default_factory=set)
    params: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def speaks_of_something_else(self) -> bool:
        return (
            not _may_mean_length(self.status)
            or not self.words.isdisjoint(_OTHER_WORDS)
            or any(_RATE_TEXT.search(text) for text in self.texts)
            or any(not _is_input(param) for param in self.params)
        )

    def speaks_of_length(self) -> bool:
        return (
            not self.words.isdisjoint(_OVERFLOW_WORDS)
            or (bool(self.params) and not self.words.isdisjoint(_TOO_MANY_OR_TOO_LONG))
            or any(_OVERFLOW_TEXT.search(text) for text in self.texts)
        )

    def reply_fills_the_window(self) -> bool:
        found = (pattern.search(text) for text in self.texts for pattern in _REPLY_TEXT)
        return any(hit is not None and int(hit["reply"]) >= int(hit["window"]) for hit in found)


def _may_mean_length(status: int | None) -> bool:
    return status is None or status in (200, 400, 413, 422) or status >= 500


def _is_input(param: str) -> bool:
    return param.lower().startswith(("input", "max_", "messages", "prompt"))


def _facts(error: BaseException) -> _Facts:
    facts = _Facts(status=_status(error))
    response = _attribute(error, "response")
    for name in ("code", "type", "status", "param"):
        _read_field(name, _attribute(error, name), facts, 0)
    for source in (
        _attribute(error, "message"),
        _attribute(error, "body"),
        _attribute(error, "details"),
        _attribute(error, "error"),
        response,
        _body_already_read(response),
        list(_attribute(error, "args") or ()),
    ):
        _read(source, facts, 0)
    return facts


def _status(error: BaseException) -> int | None:
    response = _attribute(error, "response")
    for holder, name in ((error, "status_code"), (error, "http_status"), (response, "status_code")):
        found = _attribute(holder, name)
        if isinstance(found, int) and 100 <= found < 600:
            return int(found)
    return None


def _read(value: Any, facts: _Facts, depth: int) -> None:
    """Collect from a body: an object, a list of them, or text that may itself be JSON."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _read_field(str(key).lower(), inner, facts, depth)
    elif isinstance(value, bytes):
        _read(value.decode("utf-8", "replace"), facts, depth)
    elif isinstance(value, str):
        decoded = _json(value)
        if decoded is None:
            facts.texts.append(value[:_MAX_TEXT])
        else:
            _read(decoded, facts, depth + 1)
    elif isinstance(value, Sequence):
        for inner in value[:_MAX_LINKS]:
            _read(inner, facts, depth + 1)


def _read_field(key: str, value: Any, facts: _Facts, depth: int) -> None:
    if key in _TEXT_KEYS:
        _read(value, facts, depth + 1)
    elif key == "responsemetadata" and isinstance(value, Mapping):
        _note_status(value.get("HTTPStatusCode"), facts)
    elif key == "param" and isinstance(value, str) and value:
        facts.params.append(value)
    elif key in _WORD_KEYS and isinstance(value, (str, int)):
        facts.words.add(str(value).lower())
        _note_status(value, facts)


def _note_status(value: Any, facts: _Facts) -> None:
    """A body's own status counts where HTTP said 200 or nothing: in mid-stream, or behind a proxy."""
    text = str(value)
    if facts.status in (None, 200) and len(text) == 3 and text.isdecimal() and 400 <= int(text) < 600:
        facts.status = int(text)


def _json(text: str) -> Any | None:
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _body_already_read(response: Any) -> Any | None:
    """The text of an HTTP response that is in memory; one that would have to be fetched is left alone."""
    if _attribute(response, "is_closed") is True and _attribute(response, "is_stream_consumed") is True:
        return _attribute(response, "text")
    return None


def _attribute(holder: Any, name: str) -> Any | None:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a foreign property may raise anything, and this function must not
        return None

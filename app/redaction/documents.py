"""Secrets that take several lines: private keys, and the secrets of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.redaction.judgement import is_blank
from app.redaction.shape import Span

_MARK = re.compile(r"-----(?P<side>BEGIN|END) (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
# Lines of a file, or of a text within a program.
_BREAK = re.compile(r"(?:\\[nr]|[\r\n])+")
# A line of a key ends with it; a time, a number, the mark of a diff may stand before, signs of a program behind it.
_DATA = re.compile(
    r"(?P<data>[A-Za-z0-9+/]{16,8000}+={0,2})(?:[^A-Za-z0-9+/=]{0,8}$)|(?P<cut>[A-Za-z0-9+/]{40,8000}+)"
)
# The last line of the data is as long as it comes out, the checksum of PGP is short.
_REST = re.compile(
    r"^[^A-Za-z0-9]{0,40}(?P<data>[A-Za-z0-9+/]{1,15}={0,2}|=[A-Za-z0-9+/]{4})[^A-Za-z0-9+/=]{0,8}$"
)
_HEADER = re.compile(r"^\W{0,8}(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset|MessageID)\b|^\W{0,12}$")
_MOST_LINES = 400
_LONGEST_LINE = 8_000


@dataclass(frozen=True, slots=True)
class PrivateKeys:
    """Blocks of PEM, OpenSSH and PGP: whole, without their end, or without their beginning."""

    name: str = "private-key"
    hints: tuple[str, ...] = ("private key",)
    in_words: bool = False

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """From left to right."""
        at = 0
        while mark := _MARK.search(text, at):
            at = mark.end()
            if mark["side"] == "BEGIN":
                if end := _end_of_block(text, mark.end()):
                    yield mark.start(), end
                    at = max(at, end)
            elif (start := _start_of_block(text, mark.start())) < mark.start():
                yield start, mark.end()


def _end_of_block(text: str, at: int) -> int | None:
    """Behind the mark of the end, or behind the last data; None when no data follows the mark of the beginning."""
    reached = None
    for _ in range(_MOST_LINES):
        dashes = text.find("-----", at, at + _LONGEST_LINE)
        limit = dashes if dashes >= 0 else at + _LONGEST_LINE
        stop = _BREAK.search(text, at, limit)
        line = text[at : stop.start() if stop else limit]
        data = _DATA.search(line) or (_REST.search(line) if reached else None)
        if data:
            reached = at + data.end(data.lastgroup or 0)
        if not stop and dashes >= 0:
            mark = _MARK.match(text, dashes)
            return mark.end() if mark and mark["side"] == "END" and reached else reached
        if not stop or (data and data.lastgroup == "cut") or not (data or _HEADER.search(line)):
            break
        at = stop.end()
    return reached


def _start_of_block(text: str, at: int) -> int:
    """Where the data before the mark of an end begins: the beginning was cut off."""
    start = at
    for _ in range(_MOST_LINES):
        line_start = text.rfind("\n", max(0, start - _LONGEST_LINE), max(0, start - 1)) + 1
        line = text[line_start:start].strip()
        if not line or "-----" in line or not (_DATA.search(line) or _REST.search(line)):
            break
        start = line_start
    return start


_SECRET_MANIFEST = re.compile(r"\"?kind\"?:\s{0,3}\"?secret\"?(?![\w-])")
_DATA_BLOCK = re.compile(
    r"(?m)^(?P<indent>[ \t]{0,12})(?:data|stringData):[ \t]*\r?\n"
    r"(?P<body>(?:(?P=indent)[ \t]+\S[^\n]*\n?|[ \t]*\n){1,400})"
)
_ENTRY = re.compile(
    r"(?m)^[ \t]+[\w./-]{1,253}:[ \t]+(?![|>]-?[ \t]*$)[\"']?(?P<secret>[^\s\"'][^\n\"']*)"
    r"|^[ \t]+(?P<bare>[^\s:]{8,}|-----[^\n]+)$"
)
_DATA_OBJECT = re.compile(r"\"(?:data|stringData)\":\s{0,40}\{(?P<body>[^{}]{0,20000})\}")
_MEMBER = re.compile(r"\"[\w./-]{1,253}\":\s{0,8}\"(?P<secret>[^\"\n]{1,20000})\"")
_REACH = 20_000


@dataclass(frozen=True, slots=True)
class SecretManifests:
    """The values of ``kind: Secret``, whatever they are called; in base64 they look like nothing."""

    name: str = "kubernetes-secret"
    hints: tuple[str, ...] = ("kind: secret", '"kind": "secret"', '"kind":"secret"')
    in_words: bool = False

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """From left to right, each document once."""
        done = 0
        for kind in _SECRET_MANIFEST.finditer(lowered):
            if kind.start() < done:
                continue
            start = max(
                done,
                text.rfind("\n---", max(done, kind.start() - _REACH), kind.start()),
                kind.start() - _REACH,
            )
            end = text.find("\n---", kind.end(), kind.end() + _REACH)
            done = end if end >= 0 else min(len(text), kind.end() + _REACH)
            yield from _values_of(text[start:done], start)


def _values_of(document: str, offset: int) -> Iterator[Span]:
    for block, entry in ((_DATA_BLOCK, _ENTRY), (_DATA_OBJECT, _MEMBER)):
        for found in block.finditer(document):
            for value in entry.finditer(found["body"]):
                group = value.lastgroup or 0
                if not is_blank(value[group].strip()):
                    start, end = value.span(group)
                    base = offset + found.start("body")
                    yield (
                        base + start,
                        base + start + len(document[start - offset + base : end - offset + base].rstrip()),
                    )

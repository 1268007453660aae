"""Read back what a summary call is given: the blocks, the messages of the transcript, the parts of a summary.

Everything here is one pass over the text: a transcript may have megabytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.compaction.fence import EXISTING_SUMMARY, NEW_MESSAGES

SECTIONS = ("Intent", "Constraints", "Decisions", "Artifacts", "State of the work", "Open questions")
CLOSING = "(extractive summary by the demo model)"

_ENTRY = re.compile(
    r"^\[\d+(?:–\d+)?\] (?P<speaker>user|assistant|tool result|\d+ messages|[a-z]\w*)\b(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_MERGED = re.compile(r"^(?P<speaker>user|assistant|tool result)(?P<rest>[^:\n]{0,200}): ", re.MULTILINE)
_HEADING = re.compile(r"^#{1,4} +(?P<title>[^\n]+)$", re.MULTILINE)
_CONTINUED = " (continued)"
_REFERENCE = re.compile(r" \(ref [\w-]+\)$")
_BULLET = re.compile(r"^(?:[-*•]|\d+[.)]) +")


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a transcript. ``speaker`` is ``user``, ``assistant``, ``tool result`` or another word;
    ``label`` is what the header says beside it (a tool's name, an error)."""

    speaker: str
    label: str
    text: str


def block(prompt: str, tag: str) -> str | None:
    """What stands between the opening and the closing ``tag``, or None when the prompt has no such block."""
    _, opened, rest = prompt.partition(f"<{tag}>")
    body, closed, _ = rest.rpartition(f"</{tag}>")
    return body.strip() if opened and closed else None


def new_messages(prompt: str) -> str | None:
    return block(prompt, NEW_MESSAGES)


def existing_summary(prompt: str) -> str | None:
    return block(prompt, EXISTING_SUMMARY)


def entries(transcript: str) -> Iterator[Said]:
    """The messages of a transcript in order; a text of another form is one message of the user."""
    found = list(_ENTRY.finditer(transcript))
    if not found:
        yield Said("user", "", transcript)
    for entry, body in _split(transcript, found):
        if entry["speaker"].endswith("messages"):
            yield from (_said(part, text) for part, text in _split(body, list(_MERGED.finditer(body))))
        else:
            yield _said(entry, body)


def parts_of_summary(summary: str) -> dict[str, list[str]]:
    """The points of a summary by our section names. What stands under no known heading is part of the
    state."""
    points: dict[str, list[str]] = {name: [] for name in SECTIONS}
    known = {name.casefold(): name for name in SECTIONS}
    found = list(_HEADING.finditer(summary))
    start = found[0].start() if found else len(summary)
    points["State of the work"] += _points(summary[:start])
    for heading, body in _split(summary, found):
        name = known.get(heading["title"].strip(" :*").casefold(), "State of the work")
        points[name] += _points(body)
    return points


def _split(text: str, found: list[re.Match[str]]) -> Iterator[tuple[re.Match[str], str]]:
    ends = [match.start() for match in found[1:]] + [len(text)]
    for match, end in zip(found, ends, strict=False):
        yield match, text[match.end() : end].strip()


def _said(header: re.Match[str], text: str) -> Said:
    label = _REFERENCE.sub("", header["rest"]).removesuffix(_CONTINUED)
    return Said(header["speaker"], label.strip(" ·"), text)


def _points(text: str) -> list[str]:
    lines = (_BULLET.sub("", line.strip()) for line in text.splitlines())
    return [line for line in lines if line and line != CLOSING]

"""Is what a model wrote acceptable as a summary? (rule E4)"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from app.compaction.fence import EXISTING_SUMMARY, NEW_MESSAGES
from app.compaction.refusal import reads_like_refusal
from app.compaction.shorten import Count, by_sections

RefusalReason = Literal["blank", "refusal", "content_filter", "cut_off", "loop", "echo"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A usable summary, without reasoning, within the limit asked for."""

    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Not a summary: ``reason`` is one word, ``detail`` a sentence for the record."""

    reason: RefusalReason
    detail: str


_FILTERED = frozenset(
    {"content_filter", "content_filtered", "guardrail_intervened", "safety", "recitation", "blocklist"}
    | {"prohibited_content", "spii", "image_safety"}
)
_REFUSED = frozenset({"refusal", "refused"})
_CUT_OFF = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_length", "token_limit"}
    | {"model_context_window_exceeded", "max_tokens_exceeded", "error", "abort"}
)
_REASON_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason")

_REASONING_TAG = re.compile(
    r"(?<!`)<(/?)(?:think|thinking|thought|reasoning|reflection)>(?!`)", re.IGNORECASE
)

# Long enough that two lines of a list, alike but for a number or a name, do not count as repetition.
_GRAM = 40
_LAST_CHARS = 1000
_MIN_LOOP_CHARS = 120
_MIN_DISTINCT = 0.15
_SHINGLE = 40
_MIN_ECHO_CHARS = 200
_MAX_ECHOED_INSTRUCTIONS = 0.3


def judge(reply: BaseMessage, *, prompt: str, max_tokens: int, count: Count) -> Accepted | Refused:
    """Whether a reply is a summary. Too long ones come back shortened by sections to ``max_tokens``.

    ``prompt`` is what the model was sent. Raises whatever reading the reply's text raises. Source: rule E4.
    """
    if refused := _by_provider(reply):
        return refused
    text = without_reasoning(str(reply.text)).strip()
    refused = _by_text(text) or _by_echo(text, prompt)
    return refused or Accepted(by_sections(text, max_tokens, count))


def without_reasoning(text: str) -> str:
    """``text`` without its reasoning blocks.

    Some chat templates open the block inside the prompt, so a lone closing tag ends a block as well. A block
    that is never closed counts only from the start of a line: a summary may mention the tag.
    """
    kept: list[str] = []
    end, opened = 0, -1
    for tag in _REASONING_TAG.finditer(text):
        if not tag[1] and opened < 0:
            kept.append(text[end : tag.start()])
            end = opened = tag.start()
        elif tag[1]:
            kept = kept if opened >= 0 else []
            end, opened = tag.end(), -1
    if opened < 0 or text[:opened].rstrip(" \t")[-1:] not in ("", "\n"):
        kept.append(text[end:])
    return "".join(kept)


def _by_provider(reply: BaseMessage) -> Refused | None:
    """What the provider itself says about the end of the reply."""
    reasons = set(_end_reasons(reply.response_metadata))
    if filtered := reasons & _FILTERED:
        return Refused("content_filter", f"the provider's filter ended the reply ({min(filtered)})")
    if reasons & _REFUSED or reply.additional_kwargs.get("refusal") or _has_refusal_block(reply):
        return Refused("refusal", "the model refused to summarise")
    if cut_off := reasons & _CUT_OFF:
        return Refused("cut_off", f"the summary was cut off ({min(cut_off)})")
    return None


def _end_reasons(metadata: Mapping[str, Any]) -> Iterator[str]:
    details = metadata.get("incomplete_details")
    given = [metadata.get(key) for key in _REASON_KEYS]
    given.append(details.get("reason") if isinstance(details, Mapping) else None)
    return (str(reason).rpartition(".")[2].casefold() for reason in given if reason)


def _has_refusal_block(reply: BaseMessage) -> bool:
    content = reply.content if isinstance(reply.content, list) else []
    return any(isinstance(block, Mapping) and block.get("type") == "refusal" for block in content)


def _by_text(text: str) -> Refused | None:
    if not any(char.isalnum() for char in text):
        return Refused("blank", "the reply holds no text")
    if reads_like_refusal(text):
        return Refused("refusal", "the reply is a refusal")
    if _is_loop(text):
        return Refused("loop", "the reply repeats itself")
    return None


def _is_loop(text: str) -> bool:
    """Whether the text, or its end, goes round in circles: few of its n-grams are distinct."""
    flat = " ".join(text.split())
    return any(map(_goes_round, (flat, flat[len(flat) // 2 :], flat[-_LAST_CHARS:])))


def _goes_round(text: str) -> bool:
    if len(text) < _MIN_LOOP_CHARS:
        return False
    grams = len(text) - _GRAM + 1
    return len({text[i : i + _GRAM] for i in range(grams)}) < _MIN_DISTINCT * grams


def _by_echo(text: str, prompt: str) -> Refused | None:
    """Whether the reply gives back our instructions or a stretch of the transcript instead of a summary.

    The summary so far is no echo: when nothing new was said, giving it back is right.
    """
    frame, transcript = _without_block(_without_block(prompt, EXISTING_SUMMARY)[0], NEW_MESSAGES)
    if f"<{NEW_MESSAGES}>" in text or _echoes_instructions(text, frame) or _copies(text, transcript):
        return Refused("echo", "the reply repeats the prompt")
    return None


def _without_block(prompt: str, tag: str) -> tuple[str, str]:
    """What stands outside and what inside the fences of ``tag``."""
    before, _, rest = prompt.partition(f"<{tag}>")
    inside, _, after = rest.rpartition(f"</{tag}>")
    return before + after, inside


def _echoes_instructions(text: str, instructions: str) -> bool:
    instructions = " ".join(instructions.split())
    text = " ".join(text.split())
    pieces = [instructions[i : i + _SHINGLE] for i in range(0, len(instructions) - _SHINGLE, _SHINGLE)]
    found = sum(piece in text for piece in pieces)
    return len(pieces) > 2 and found > _MAX_ECHOED_INSTRUCTIONS * len(pieces)


def _copies(text: str, transcript: str) -> bool:
    return len(text) >= _MIN_ECHO_CHARS and text in transcript

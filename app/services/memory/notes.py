"""What a model answered when it was asked for facts, made safe to keep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any

from app.persistence.memory import Fact, Note
from app.telemetry import redact

MAX_KEY_LENGTH = 64
MAX_TEXT_LENGTH = 2000
# Of one answer. Whoever notes more than this of so few words is copying them.
MAX_NOTES = 20

KEY = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_KEY_LENGTH - 1}}}")

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_DECODER = json.JSONDecoder(strict=False)
_OPENING = re.compile(r"[{\[]")
_NO_KEY = re.compile(r"[^a-z0-9_.]+")
_CONTROL = re.compile("[\0-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]+")
_SECRET_WORDS = re.compile(
    r"\b(?:password|passwd|passphrase|pass ?code|pin|secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|cvv"
    r"|iban|passwort|kennwort|contraseña|mot de passe|senha)\b"
    r"\W{0,3}(?:is|are|for\b.{0,40}\bis|=|:|ist|lautet|es|est|é)"
    r"|(?:密码|口令|密钥|パスワード|비밀번호)",
    re.IGNORECASE,
)
_SECRET_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{12,}"
    r"|\b(?:gh[pousr]|github_pat|glpat|xox[abprs]|sk|pk|rk)[_-][\w-]{10,}"
    r"|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b"
)
_LONG_WORD = re.compile(r"[A-Za-z0-9+=_]{20,}")
_CARD = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")
_FEW = 4
# What a model makes of nonsense is not looked at for ever.
_MAX_REPLY_LENGTH = 50_000
_MAX_OPENINGS = 200


@dataclass(frozen=True, slots=True)
class Notes:
    """What is to be kept and forgotten. ``refused`` counts what must not be kept."""

    facts: Mapping[str, str] = field(default_factory=dict)
    forget: tuple[str, ...] = ()
    refused: int = 0


def read_notes(reply: str) -> Notes | None:
    """The notes in a model's answer, whatever stands around them; None when there is no JSON that could be notes."""
    for value in _json_in(_THOUGHTS.sub(" ", reply[:_MAX_REPLY_LENGTH])):
        match value:
            case {"facts": list() | dict() as facts, **rest}:
                return _notes(facts, rest.get("forget"))
            case {"forget": forget, **rest} if not rest:
                return _notes([], forget)
            case [dict(), *_] | []:
                return _notes(value, None)
    return None


def changes(
    notes: Notes, seen: Sequence[Fact], now: Sequence[Fact], thread_id: str, most: int
) -> tuple[list[Note], list[str]]:
    """What to write and what to forget. ``seen`` are the facts that the model was shown, ``now`` those there are.

    What a person wrote, or changed while the model was at work, stays as it is. When there are more than ``most``, the
    facts that were not touched for the longest time make room.
    """
    current = {fact.key: fact for fact in now}
    shown = {fact.key: fact for fact in seen}
    own = {key for key, fact in current.items() if not fact.edited and fact == shown.get(key)}
    touchable = own | {key for key in notes.facts if key not in current and key not in shown}
    forget = [key for key in dict.fromkeys(notes.forget) if key in own and key not in notes.facts]
    write = [
        Note(key, text, thread_id)
        for key, text in notes.facts.items()
        if key in touchable and not (key in current and current[key].text == text)
    ]
    old = [
        fact.key
        for fact in sorted(now, key=lambda fact: fact.updated_at)
        if not fact.edited and fact.key not in notes.facts and fact.key not in forget
    ]
    total = len(current.keys() - set(forget) | {note.key for note in write})
    forget += old[: max(0, total - most)]
    over = len(current.keys() - set(forget) | {note.key for note in write}) - most
    new = [note for note in write if note.key not in current]
    dropped = {note.key for note in new[len(new) - over :]} if over > 0 else set()
    return [note for note in write if note.key not in dropped], forget


def looks_secret(text: str) -> bool:
    """Whether the text may hold what opens a door: rather one fact too few than one of these."""
    if redact(text) != text or _SECRET_WORDS.search(text) or _SECRET_FORMS.search(text):
        return True
    if any(_is_random(word) for word in _LONG_WORD.findall(text)):
        return True
    return any(_is_card(number) for number in _CARD.findall(text))


def _notes(facts: Any, forget: Any) -> Notes:
    kept: dict[str, str] = {}
    refused = 0
    for key, text in islice(_pairs(facts), MAX_NOTES):
        clean = " ".join(_CONTROL.sub(" ", text).split())
        if not clean or len(clean) > MAX_TEXT_LENGTH:
            continue
        if looks_secret(f"{key}: {clean}") or looks_secret(clean):
            refused += 1
            continue
        kept[key] = clean
    listed = forget if isinstance(forget, list) else []
    return Notes(kept, tuple(_key(item) for item in listed if isinstance(item, str)), refused)


def _pairs(facts: Any) -> Iterator[tuple[str, str]]:
    """Key and text of each fact, in whatever form; a fact without a key gets one of its first words."""
    for item in facts.items() if isinstance(facts, dict) else facts:
        match item:
            case (str() as key, str() as text):
                yield _key(key), text
            case {"key": str() as key, "text": str() as text}:
                yield _key(key or _opening(text)), text
            case {"text": str() as text} | (str() as text):
                yield _key(_opening(text)), text


def _opening(text: str) -> str:
    return " ".join(text.split()[:5])


def _key(text: str) -> str:
    """A key in our form. One in another script gets a name that stays the same."""
    plain = _NO_KEY.sub("-", text.strip().lower())[:MAX_KEY_LENGTH].strip("-_.")
    return plain or f"fact-{sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _json_in(text: str) -> Iterator[Any]:
    """Every JSON value that begins in the text, outermost and first ones first."""
    at = 0
    for _ in range(_MAX_OPENINGS):
        found = _OPENING.search(text, at)
        if found is None:
            return
        try:
            value, at = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.end()
            continue
        yield value


def _is_random(word: str) -> bool:
    digits = sum(char.isdigit() for char in word)
    return digits >= _FEW and sum(char.isalpha() for char in word) >= _FEW


def _is_card(number: str) -> bool:
    """The check digit that all card numbers have (Luhn)."""
    digits = [int(char) for char in reversed(number) if char.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0

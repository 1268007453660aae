"""What is wrong with a configuration, in sentences: key path, value, what is allowed, what was meant."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.errors import ConfigError

KeyPath = tuple[str | int, ...]

_RULES = {
    "missing": "is required",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}
_SECRET_ENDINGS = ("key", "secret", "password", "token", "url", "args", "env", "headers")
_LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. ``path`` is where in the document; ``text`` follows it in the sentence."""

    path: KeyPath
    text: str


def key_path(path: KeyPath) -> str:
    """``("trigger", 0, "value")`` as ``trigger[0].value``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: Any, path: KeyPath) -> str:
    """``value`` as YAML people know it, short; secrets and whole structures are named, never shown."""
    if path and str(path[-1]).lower().endswith(_SECRET_ENDINGS):
        return "the given value"
    match value:
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            text = json.dumps(value, ensure_ascii=False, default=str)
            return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean "port"?`` and all that is allowed, for a word that is not among ``known``."""
    options = list(known)
    close = difflib.get_close_matches(word, options, n=1)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    return f"{hint}allowed: {', '.join(options) or 'nothing'}"


def unknown_key(path: KeyPath, known: Iterable[str]) -> Problem:
    return Problem(path, f"unknown key ({did_you_mean(str(path[-1]), known)})")


def problems_of(error: ValidationError, schema: type[BaseModel], path: KeyPath, raw: Any) -> list[Problem]:
    """Every error of one section as a problem. ``raw`` is what was validated, ``path`` where it stands."""
    return [_problem(details, schema, path, raw) for details in error.errors()]


def _problem(details: ErrorDetails, schema: type[BaseModel], path: KeyPath, raw: Any) -> Problem:
    loc = details["loc"]
    full = path + _as_written(loc, raw)
    if details["type"] == "extra_forbidden":
        return unknown_key(full, _fields_at(schema, loc[:-1]))
    rule = _rule(details)
    if details["type"] == "missing":
        return Problem(full, rule)
    return Problem(full, f"{shown(details['input'], full)} is not allowed: it {rule}")


def _rule(details: ErrorDetails) -> str:
    if details["type"] == "literal_error":
        return f"must be {details['ctx']['expected']}"
    return _RULES.get(details["type"], details["msg"])


def _as_written(loc: Sequence[str | int], raw: Any) -> KeyPath:
    """``loc`` without the list index of a value that the file gives alone (``trigger: {…}``)."""
    written: list[str | int] = []
    for part in loc:
        if isinstance(part, int) and isinstance(raw, dict):
            continue
        written.append(part)
        raw = _child(raw, part)
    return tuple(written)


def _child(raw: Any, part: str | int) -> Any:
    match raw:
        case dict():
            return raw.get(part)
        case list() if isinstance(part, int) and part < len(raw):
            return raw[part]
        case _:
            return None


def _fields_at(schema: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    for part in loc:
        # What is no field is the name of an entry in a mapping.
        if isinstance(part, str) and part in schema.model_fields:
            schema = _model_in(schema.model_fields[part].annotation) or schema
    return list(schema.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(part) for part in get_args(annotation))
    return next((model for model in found if model), None)


def config_error(source: str, problems: Sequence[Problem], labels: dict[KeyPath, str]) -> ConfigError:
    """All problems as one error. ``labels`` name paths whose value did not come from the file but from a
    variable or a flag."""
    lines = [f"{labels.get(item.path) or key_path(item.path)}: {item.text}" for item in problems]
    if len(lines) == 1:
        return ConfigError(f"{source}: {lines[0]}")
    listed = "\n".join(f"  - {line}" for line in lines)
    return ConfigError(f"{source}: {len(lines)} problems\n{listed}")

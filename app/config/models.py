"""The section ``models`` in DeerFlow's form (rule A1): the chat models and how they are constructed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, SecretStr, model_validator

from app.config.imports import TARGET
from app.config.values import PositiveWhole, Section, Text, non_blank, refuse
from app.errors import ConfigError

DEMO_MODEL_NAME = "demo"
"""The offline model that answers when no configured model can be used."""

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")

# Keys that describe a model to people or to DeerFlow; no constructor gets them.
_DESCRIPTIVE = frozenset(
    {"name", "use", "display_name", "description", "context_window", "pricing"}
    | {"when_thinking_enabled", "when_thinking_disabled"}
)

_ABILITIES = ("thinking", "reasoning_effort", "vision")


def _class_path(value: Any) -> str:
    if not TARGET.fullmatch(non_blank(value)):
        raise refuse('must be of the form "package.module:Class", for example langchain_openai:ChatOpenAI')
    return str(value)


class ModelSettings(Section):
    """One chat model. Every key that is not named here is an argument of the class's constructor.

    ``context_window`` is tokens of prompt and reply together; ``max_tokens`` is the longest reply in tokens,
    passed to the constructor as well.
    """

    model_config = ConfigDict(extra="allow")

    name: Text
    use: Annotated[str, BeforeValidator(_class_path)]
    display_name: str | None = None
    description: str | None = None
    context_window: PositiveWhole | None = None
    max_tokens: PositiveWhole | None = None

    @model_validator(mode="before")
    @classmethod
    def _text_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {str(key): value for key, value in data.items()}
        return data

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments, ``$ENV`` references unresolved. May hold secrets, never log them."""
        given = {**(self.model_extra or {}), "max_tokens": self.max_tokens}
        return {
            key: value
            for key, value in given.items()
            if value is not None and key not in _DESCRIPTIVE and not key.startswith("supports_")
        }

    @property
    def provider_model(self) -> str | None:
        """What the provider calls the model, if the configuration says so in plain text."""
        given = (self.model_extra or {}).get("model")
        return given if isinstance(given, str) and reference_name(given) is None else None

    @property
    def supports(self) -> dict[str, bool]:
        """What the configuration says that the model can do: DeerFlow's keys ``supports_…``."""
        return {name: (self.model_extra or {}).get(f"supports_{name}") is True for name in _ABILITIES}

    def missing_variables(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Environment variables the model refers to that are not set or empty, each once, in order."""
        names = dict.fromkeys(_references(self.arguments()))
        return tuple(name for name in names if not environ.get(name))

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Values of unknown keys may be secrets: only their names are shown."""
        yield from ((name, getattr(self, name)) for name in type(self).model_fields)
        yield "arguments", sorted(self.model_extra or {})


def resolve_references(value: Any, environ: Mapping[str, str]) -> Any:
    """``value`` with each text that is just ``$NAME`` or ``${NAME}`` replaced by that variable, at any depth.

    A variable that is not set becomes an empty text: ask ``ModelSettings.missing_variables`` first.
    """
    match value:
        case str():
            name = reference_name(value)
            return value if name is None else environ.get(name, "")
        case dict():
            return {key: resolve_references(item, environ) for key, item in value.items()}
        case list():
            return [resolve_references(item, environ) for item in value]
        case _:
            return value


def reference_name(value: str) -> str | None:
    """The variable that ``$NAME`` or ``${NAME}`` refers to, or None for any other text."""
    found = _REFERENCE.fullmatch(value)
    return (found[1] or found[2]) if found else None


def looked_up(secret: SecretStr, environ: Mapping[str, str], key: str) -> str:
    """The secret itself; ``$NAME`` is read from the environment. Raises ConfigError, which names the ``key``, when the
    variable is not set or empty."""
    text = secret.get_secret_value()
    if name := reference_name(text):
        text = environ.get(name, "")
        if not text:
            raise ConfigError(f"{key}: the variable ${name} it refers to is not set")
    return text


def _references(value: Any) -> Iterator[str]:
    match value:
        case str():
            name = reference_name(value)
            if name is not None:
                yield name
        case dict():
            for item in value.values():
                yield from _references(item)
        case list():
            for item in value:
                yield from _references(item)

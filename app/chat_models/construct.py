"""Build a chat model from its settings: any LangChain class, any OpenAI-compatible server by ``base_url``.

What fails is said in one line that names the model and the cause, and never holds a key.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from app.config.imports import split_target
from app.config.models import ModelSettings, reference_name, resolve_references
from app.errors import ModelError, ModelUnavailable

_OPENAI_KEY = "OPENAI_API_KEY"
_KEY_ARGUMENTS = ("api_key", "openai_api_key")
_URL_ARGUMENTS = ("base_url", "openai_api_base")
_URL_VARIABLES = ("OPENAI_API_BASE", "OPENAI_BASE_URL")
# Servers that want no key still get one from the SDK, which refuses to start without.
_NO_KEY = "not-needed"
_SECRET_ENDINGS = ("key", "token", "secret", "password", "headers")
_SHORTEST_SECRET = 4


def unavailable_reason(settings: ModelSettings, environ: Mapping[str, str]) -> str | None:
    """Why the model cannot be used, as far as can be told without importing its package, or None."""
    missing = settings.missing_variables(environ)
    if missing:
        return f"{', '.join(f'${name}' for name in missing)} is not set"
    if _is_openai(settings) and _openai_key(settings.arguments(), environ) is None:
        return f"${_OPENAI_KEY} is not set, and there is neither api_key nor base_url"
    package = split_target(settings.use)[0].partition(".")[0]
    return None if _is_installed(package) else f'the package "{package}" is not installed'


def construct(settings: ModelSettings, environ: Mapping[str, str], *, retries: bool = True) -> BaseChatModel:
    """The chat model, built now. ``retries`` False switches off the SDK's own, where it has any (rule E3).

    Raises ModelUnavailable when a variable or the package is missing, ModelError for everything else.
    """
    reason = unavailable_reason(settings, environ)
    if reason is not None:
        raise ModelUnavailable(f'model "{settings.name}": {reason}')
    model_class = _load_class(settings)
    arguments = _arguments(settings, environ, model_class, retries)
    try:
        return model_class(**arguments)
    except Exception as error:  # noqa: BLE001 - foreign constructors raise anything; the caller gets one kind
        cause = _cause(error, set(_secrets(settings.arguments(), environ)))
        detail = f'model "{settings.name}": {settings.use} cannot be constructed: {cause}'
    # Outside the handler, so that the error carries no context: that one may hold the key.
    raise ModelError(detail)


def _load_class(settings: ModelSettings) -> type[BaseChatModel]:
    module_name, class_name = split_target(settings.use)
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ModuleNotFoundError as error:
        raise ModelUnavailable(
            f'model "{settings.name}": the module "{error.name}" is not installed'
        ) from None
    except Exception as error:  # importing runs foreign code, which raises anything
        raise ModelError(f'model "{settings.name}": {module_name} cannot be imported: {error}') from error
    if not (isinstance(found, type) and issubclass(found, BaseChatModel)):
        what = "has no such class" if found is None else "is not a LangChain chat model class"
        raise ModelError(f'model "{settings.name}": use: {settings.use} {what}')
    return found


def _arguments(
    settings: ModelSettings, environ: Mapping[str, str], model_class: type[BaseChatModel], retries: bool
) -> dict[str, Any]:
    given = settings.arguments()
    arguments: dict[str, Any] = resolve_references(given, environ)
    known = _parameters(model_class)
    if _is_openai(settings) and not any(arguments.get(key) for key in _KEY_ARGUMENTS):
        arguments["api_key"] = _openai_key(given, environ)
    if "stream_usage" in known:
        # Off by default for every server but OpenAI's own, and then no stream ever reports usage.
        arguments.setdefault("stream_usage", True)
    if "max_retries" in known and not retries:
        arguments["max_retries"] = 0
    if "context_window" in known and settings.context_window is not None:
        arguments["context_window"] = settings.context_window
    if "thinking" not in known:
        # DeerFlow's switch for models that take it by other means.
        arguments.pop("thinking", None)
    return arguments


def _parameters(model_class: type[BaseChatModel]) -> set[str]:
    fields = model_class.model_fields
    return set(fields) | {field.alias for field in fields.values() if field.alias}


def _is_openai(settings: ModelSettings) -> bool:
    module, name = split_target(settings.use)
    return module.partition(".")[0] == "langchain_openai" and name == "ChatOpenAI"


def _openai_key(arguments: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """The key as written, or what stands in for it. OpenAI's is never sent to another server by accident."""
    given = next((str(arguments[key]) for key in _KEY_ARGUMENTS if arguments.get(key)), None)
    if given is not None:
        return given
    if any(arguments.get(key) for key in _URL_ARGUMENTS):
        return _NO_KEY
    elsewhere = any(environ.get(name) for name in _URL_VARIABLES)
    return environ.get(_OPENAI_KEY) or (_NO_KEY if elsewhere else None)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:
        return False


def _cause(error: Exception, secrets: set[str]) -> str:
    """One line about ``error``. Pydantic's own text is not used: it quotes the input, which may be a key."""
    if isinstance(error, ValidationError):
        text = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
    else:
        text = f"{type(error).__name__}: {error}"
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return " ".join(text.split())


def _secrets(value: Any, environ: Mapping[str, str], hidden: bool = False) -> Iterator[str]:
    """All texts of the arguments that came from a variable or stand under a key that names a secret."""
    match value:
        case dict():
            for key, item in value.items():
                yield from _secrets(item, environ, hidden or str(key).lower().endswith(_SECRET_ENDINGS))
        case list():
            for item in value:
                yield from _secrets(item, environ, hidden)
        case str():
            name = reference_name(value)
            text = environ.get(name, "") if name else value
            if (name or hidden) and len(text) >= _SHORTEST_SECRET:
                yield text
        case _:
            return

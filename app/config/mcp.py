"""The section ``mcp``: servers of the Model Context Protocol, whose tools agents may use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from app.config.agents import runnable_name
from app.config.values import PositiveNumber, Section, Text, refuse

Transport = Literal["stdio", "http", "sse"]

_TRANSPORTS = {"streamable_http": "http", "streamable-http": "http", "streamableHttp": "http"}
# What DeerFlow and desktop clients call these keys.
_ALIASES = {"type": "transport", "tool_call_timeout": "call_timeout_s", "timeout": "call_timeout_s"}
_DESCRIPTIVE = ("description", "disabled", "routing", "tools", "oauth", "autoApprove", "alwaysAllow")
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
_Entries = dict[str, Annotated[str, BeforeValidator(lambda value: _text(value))]]


class McpServerSettings(Section):
    """One server. Texts may hold ``$NAME`` or ``${NAME}`` anywhere, for variables of the environment.

    ``call_timeout_s`` None: that of the section. ``env`` is added to a small part of our own environment, not to all.
    """

    transport: Transport
    enabled: bool = True
    command: Text | None = None
    args: Annotated[tuple[str, ...], Field(strict=False)] = ()
    env: _Entries = Field(default_factory=dict)
    cwd: Text | None = None
    url: Text | None = None
    headers: _Entries = Field(default_factory=dict)
    call_timeout_s: PositiveNumber | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_we_call_it(cls, data: Any) -> Any:
        """The keys and transports of other clients under our names; what only describes a server to them is left
        out."""
        if not isinstance(data, dict):
            return data
        named = {
            _ALIASES.get(str(key), str(key)): value for key, value in data.items() if key not in _DESCRIPTIVE
        }
        if data.get("disabled") is True:
            named["enabled"] = False
        known = named.get("transport") or ("stdio" if named.get("command") else "http")
        named["transport"] = _TRANSPORTS.get(known, known) if isinstance(known, str) else known
        return named

    @model_validator(mode="after")
    def _reachable(self) -> McpServerSettings:
        match self.transport:
            case "stdio" if self.command is None:
                raise refuse("must have a command, since its transport is stdio")
            case "http" | "sse" if self.url is None:
                raise refuse(f"must have a url, since its transport is {self.transport}")
        return self

    def variables(self) -> tuple[str, ...]:
        """Variables that it refers to, each once, in order."""
        return tuple(dict.fromkeys(name for text in self._texts() for name in _names(text)))

    def missing_variables(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Variables that it refers to and that are not set or empty."""
        return tuple(name for name in self.variables() if not environ.get(name))

    def _texts(self) -> Iterator[str]:
        yield from (text for text in (self.command, *self.args, self.url) if text is not None)
        yield from (*self.env.values(), *self.headers.values())

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Addresses, arguments and values may hold secrets: only names are shown."""
        yield "transport", self.transport
        yield "command", self.command
        yield "env", sorted(self.env)
        yield "headers", sorted(self.headers)


class McpSettings(Section):
    """``servers`` by name. Times are seconds: ``connect_timeout_s`` for start and listing of a server's tools,
    ``call_timeout_s`` for one call, ``retry_after_s`` until a server that was down is tried again."""

    servers: dict[Annotated[str, BeforeValidator(runnable_name)], McpServerSettings] = Field(
        default_factory=dict
    )
    connect_timeout_s: PositiveNumber = 30.0
    call_timeout_s: PositiveNumber = 120.0
    retry_after_s: PositiveNumber = 30.0

    @model_validator(mode="before")
    @classmethod
    def _named_as_elsewhere(cls, data: Any) -> Any:
        if isinstance(data, dict) and "servers" not in data and "mcpServers" in data:
            return {"servers": data["mcpServers"], **{k: v for k, v in data.items() if k != "mcpServers"}}
        return data

    @property
    def enabled(self) -> Mapping[str, McpServerSettings]:
        return {name: server for name, server in self.servers.items() if server.enabled}


def expand(text: str, environ: Mapping[str, str]) -> str:
    """``text`` with each ``$NAME`` and ``${NAME}`` replaced by that variable; one that is not set is left out."""
    return _REFERENCE.sub(lambda found: environ.get(found[1] or found[2], ""), text)


def _names(text: str) -> Iterator[str]:
    return ((found[1] or found[2]) for found in _REFERENCE.finditer(text))


def _text(value: Any) -> str:
    """Numbers and switches are texts in an environment; YAML reads them as what they look like."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            raise refuse("must be a text")

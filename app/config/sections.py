"""The small sections of config.yaml: server, database, runs, workspace, dynamic context, memory, logging."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr, field_validator

from app.config.values import Port, PositiveNumber, PositiveWhole, Section, Text, refuse

_ORIGIN = re.compile(r"https?://[^/\s]+")
_POSTGRES_URL = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")

TextList = Annotated[tuple[Text, ...], Field(strict=False)]


class ServerSettings(Section):
    """How the gateway listens. Sizes are bytes, times are seconds; port 0 takes any free port.

    ``cors_origins`` are exact origins beside the loopback ones, which are always allowed; ``*`` allows all.
    ``strict_thread_ids`` accepts UUIDs only, else 1 to 64 of letters, digits, ``_`` and ``-`` as well.
    ``allow_unauthenticated`` lets others reach a service without accounts; ``allowed_hosts`` are names it may be called
    by then, beside those of this machine and addresses of numbers; ``*`` allows all.
    """

    host: Text = "127.0.0.1"
    port: Port = 8000
    max_body_bytes: PositiveWhole = 16 * 1024 * 1024
    cors_origins: TextList = ()
    allow_unauthenticated: bool = False
    allowed_hosts: TextList = ()
    strict_thread_ids: bool = True
    heartbeat_s: PositiveNumber = 5.0
    shutdown_grace_s: PositiveNumber = 10.0

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise refuse(f'must hold origins like "https://chat.example.org" or "*"; {origin!r} is none')
        return origins


class WorkerSettings(Section):
    """How a process that only executes runs is watched: the ``port`` of ``server.host`` on which it tells how it fares.
    0 is any free one; None: it does not listen."""

    port: Port | None = None


class DatabaseSettings(Section):
    """Which PostgreSQL. ``url`` None means the embedded one in the data folder."""

    url: SecretStr | None = None
    pool_min_size: PositiveWhole = 2
    pool_max_size: PositiveWhole = 20

    @field_validator("url", mode="before")
    @classmethod
    def _postgres(cls, url: Any) -> SecretStr | None:
        if url is None:
            return None
        if not isinstance(url, str) or not _POSTGRES_URL.match(url):
            raise refuse('must be a URL like "postgresql://user:password@host:5432/name"')
        # SQLAlchemy's "+driver" is not part of a libpq URL.
        return SecretStr(_POSTGRES_URL.sub("postgresql://", url, count=1))

    @field_validator("pool_max_size")
    @classmethod
    def _not_below_min(cls, size: int, info: Any) -> int:
        smallest = info.data.get("pool_min_size", 1)
        if size < smallest:
            raise refuse(f"must not be below pool_min_size ({smallest})")
        return size


class RunSettings(Section):
    """How runs are worked off; ``concurrency`` is per process, times are seconds.

    A run whose worker showed no life for ``stalled_after_s`` is taken over, ``max_attempts`` in all. One
    longer than ``timeout_s`` (None: no limit) ends with status timeout. The thread of a stateless run is kept for
    ``stateless_grace_s`` after it, so that a client whose connection broke can still get the answer.
    """

    concurrency: PositiveWhole = 8
    max_attempts: PositiveWhole = 3
    stalled_after_s: PositiveNumber = 30.0
    timeout_s: PositiveNumber | None = 3600.0
    stateless_grace_s: PositiveNumber = 30.0


class WorkspaceSettings(Section):
    """Limits of the folder that the file tools of a thread work in.

    ``max_read_bytes`` is what one call returns as text, ``max_entries`` how many lines a listing or a search has,
    ``max_files`` how many files and folders there may be.
    """

    max_file_bytes: PositiveWhole = 10 * 1024 * 1024
    max_read_bytes: PositiveWhole = 32 * 1024
    max_total_bytes: PositiveWhole = 512 * 1024 * 1024
    max_entries: PositiveWhole = 500
    max_files: PositiveWhole = 10_000


class DynamicContextSettings(Section):
    """The date that the model is told. ``timezone`` (an IANA name) decides when a day begins."""

    enabled: bool = True
    timezone: Text = "UTC"

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            zone_of(name)
        except (ValueError, OSError):
            # A name that is no zone, one that is a folder of zones, one that would leave the folder.
            raise refuse('must be a time zone like "Europe/Berlin"') from None
        return name

    @property
    def zone(self) -> tzinfo:
        return zone_of(self.timezone)


class MemorySettings(Section):
    """What is known of a person across threads. Off unless it is asked for: it keeps what people say.

    ``model_name`` None: the model that the run was executed with. A finished turn is read after ``debounce_s``
    seconds, with all that were finished meanwhile. ``max_injected_tokens`` is what a thread is given of it.
    """

    enabled: bool = False
    model_name: Text | None = None
    debounce_s: PositiveNumber = 30.0
    max_facts: PositiveWhole = 100
    max_injected_tokens: PositiveWhole = 1500


class LoggingSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


def zone_of(name: str) -> tzinfo:
    """The time zone of a name. UTC needs no time zone files. Raises ValueError or OSError."""
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except KeyError as error:
        raise ValueError(f"no time zone {name}") from error

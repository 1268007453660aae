"""Put config.yaml, environment and command line together: flags beat variables, variables beat the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.config.deerflow import without_foreign_keys
from app.config.document import read_document
from app.config.models import reference_name
from app.config.problems import KeyPath, Problem, config_error
from app.config.reader import SectionReader
from app.config.settings import Settings

DEFAULT_CONFIG_NAME = "config.yaml"


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line sets; None leaves a setting to the environment and the file."""

    host: str | None = None
    port: int | None = None
    worker_port: int | None = None
    data_dir: Path | None = None


def load_settings(
    config_path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Overrides | None = None,
) -> Settings:
    """Read the settings once (rule A5).

    The file is ``config_path``, else ``$THREADKEEP_CONFIG``, else ``config.yaml`` in the current folder if
    there is one, else none. Raises ConfigError, which lists every problem: key, value and what is allowed.
    """
    variables = environ or {}
    path = config_path or _path(variables.get("THREADKEEP_CONFIG"))
    if path is None and Path(DEFAULT_CONFIG_NAME).is_file():
        path = Path(DEFAULT_CONFIG_NAME)
    document = {} if path is None else read_document(path)
    return settings_from(document, config_path=path, environ=variables, overrides=overrides)


def settings_from(
    document: Mapping[str, Any],
    *,
    config_path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Overrides | None = None,
) -> Settings:
    """The settings that an already parsed document adds up to. Raises ConfigError.

    ``config_path`` names it in errors and anchors its relative paths (None: the current folder).
    """
    variables, flags = environ or {}, overrides or Overrides()
    own, warnings = without_foreign_keys(dict(document))
    layers = _Layers(own)
    layers.resolve_database_url(variables)
    layers.put_variables(variables)
    layers.put_flags(flags)
    reader = SectionReader(layers.document, (config_path or Path(DEFAULT_CONFIG_NAME)).resolve().parent)
    settings = reader.settings(config_path, data_dir=_path(layers.data_dir), warnings=warnings)
    problems = [*layers.problems, *reader.problems]
    if problems:
        raise config_error(str(config_path or "settings"), problems, layers.labels)
    return settings


class _Layers:
    """The document with variables and flags laid over it, and where each laid-over value came from."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.labels: dict[KeyPath, str] = {}
        self.problems: list[Problem] = []
        self.data_dir: str | Path | None = None

    def resolve_database_url(self, variables: Mapping[str, str]) -> None:
        section = self.document.get("database")
        url = section.get("url") if isinstance(section, dict) else None
        name = reference_name(url) if isinstance(url, str) else None
        if name is None or variables.get("DATABASE_URL"):
            return
        if not variables.get(name):
            self.problems.append(
                Problem(("database", "url"), f"the variable ${name} it refers to is not set")
            )
        self._put("database", "url", variables.get(name) or None, "database.url")

    def put_variables(self, variables: Mapping[str, str]) -> None:
        self._put("server", "host", variables.get("THREADKEEP_HOST") or None, "THREADKEEP_HOST")
        self._put("server", "port", _number(variables.get("THREADKEEP_PORT")), "THREADKEEP_PORT")
        worker_port = _number(variables.get("THREADKEEP_WORKER_PORT"))
        self._put("worker", "port", worker_port, "THREADKEEP_WORKER_PORT")
        self._put("database", "url", variables.get("DATABASE_URL") or None, "DATABASE_URL")
        self._put("auth", "type", variables.get("THREADKEEP_AUTH") or None, "THREADKEEP_AUTH")
        self._put(
            "server",
            "allow_unauthenticated",
            _switch(variables.get("THREADKEEP_ALLOW_UNAUTHENTICATED") or None),
            "THREADKEEP_ALLOW_UNAUTHENTICATED",
        )
        self.data_dir = variables.get("THREADKEEP_DATA_DIR") or self.data_dir

    def put_flags(self, flags: Overrides) -> None:
        self._put("server", "host", flags.host, "--host")
        self._put("server", "port", flags.port, "--port")
        self._put("worker", "port", flags.worker_port, "--port")
        self.data_dir = flags.data_dir or self.data_dir

    def _put(self, section: str, key: str, value: Any, source: str) -> None:
        content = self.document.get(section)
        content = {} if content is None else content
        if value is None or not isinstance(content, dict):
            return
        self.document = {**self.document, section: {**content, key: value}}
        self.labels[(section, key)] = source


def _number(text: str | None) -> int | str | None:
    """A number that a variable says; any other text is left for the check of the section to refuse."""
    return int(text) if text and text.isdecimal() else text or None


def _switch(text: str | None) -> bool | str | None:
    """What a variable says that is on or off; any other text is left for the check of the section to refuse."""
    return {"1": True, "true": True, "0": False, "false": False}.get((text or "").lower(), text)


def _path(text: str | Path | None) -> Path | None:
    return Path(text).expanduser() if text else None

"""Read config.yaml as a mapping. What cannot be read is one clear line with the file and the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from app.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """YAML without surprises: a key given twice is an error instead of the last one winning silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f'the key "{key.value}" is given twice', key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_document(path: Path) -> dict[str, Any]:
    """The content of the file; an empty file is an empty mapping. Raises ConfigError."""
    text = _read_text(path)
    try:
        # _Loader is a SafeLoader: no Python object can be named in the file.
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {_syntax(error)}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must hold a mapping of sections, not a {type(document).__name__}")
    return {str(key): value for key, value in document.items()}


def _read_text(path: Path) -> str:
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; give the path of a config.yaml")
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _syntax(error: yaml.YAMLError) -> str:
    """The error's place and reason, without the snippet PyYAML adds: that line may hold a key."""
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "not valid YAML"
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}YAML: {reason}"

"""Finds what ``graphs:`` names: imports the file or the module and takes the attribute."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from app.config import GraphSettings
from app.errors import ConfigError
from app.telemetry import redact

_LONGEST_CAUSE = 300


def load_target(graph: GraphSettings) -> Any:
    """What the entry of ``graphs:`` names. Raises ConfigError: one line with the key, the target and the cause."""
    try:
        module = _module_at(graph.path) if graph.path else _named_module(graph)
    except (Exception, SystemExit) as error:  # the module is somebody else's and may raise anything
        raise refusal(graph, f"the import failed: {cause_of(error)}") from error
    try:
        return getattr(module, graph.attribute)
    except AttributeError:
        raise refusal(graph, f"there is no {graph.attribute!r} in it") from None


def refusal(graph: GraphSettings, cause: str) -> ConfigError:
    """The one line that a person gets when a graph cannot be hosted."""
    return ConfigError(f'graphs.{graph.name}: "{graph.target}" cannot be hosted: {cause}')


def cause_of(error: BaseException) -> str:
    """Class, sentence and line of an error of somebody else's code, on one line."""
    if isinstance(error, SyntaxError):
        place = f" (line {error.lineno} of {Path(error.filename or '?').name})"
    else:
        # The innermost frames are usually those of a library; people look for their own line.
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_theirs(frame.filename)]
        place = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
    sentence = " ".join(redact(error.msg if isinstance(error, SyntaxError) else str(error)).split())
    return f"{type(error).__name__}: {sentence[:_LONGEST_CAUSE]}{place}"


def _is_theirs(file: str) -> bool:
    here = str(Path(__file__).resolve().parents[2])
    return (
        not file.startswith((here, "<frozen")) and "site-packages" not in file and "/lib/python" not in file
    )


def _named_module(graph: GraphSettings) -> ModuleType:
    _importable(graph.folder)
    return importlib.import_module(graph.module or "")


def _module_at(path: Path) -> ModuleType:
    """The module of a file, once per file. Inside a package it is imported as part of it."""
    root, name = _place(path)
    _importable(root)
    name = _free_name(name, path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python module")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and type hints look their module up while it is executed.
    sys.modules[name] = module
    try:
        if "." in name:
            importlib.import_module(name.rpartition(".")[0])
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _place(path: Path) -> tuple[Path, str]:
    """The folder that the file is imported from, and its name there: dotted where it stands in a package."""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _free_name(name: str, path: Path) -> str:
    """``name``, unless another module has it: two folders may both hold a ``graph.py``. The same in every process,
    since checkpoints name the classes of a state by their module."""
    known = sys.modules.get(name)
    file = getattr(known, "__file__", None) if known else _file_of(name)
    if file is None or Path(file).resolve() == path:
        return name
    return f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def _file_of(name: str) -> str | None:
    if "." in name:
        return None
    found = importlib.util.find_spec(name)
    return found.origin if found else None


def _importable(folder: Path) -> None:
    """Last, so that a file beside the graph never stands in for a module of a library."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

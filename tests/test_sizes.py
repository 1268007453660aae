"""Rules on size and shape that no linter of ours has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST_MODULE = 350
LONGEST_FUNCTION = 60


def modules() -> Iterator[tuple[Path, str]]:
    for folder in ("app", "migrations"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), path.read_text()


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_no_module_is_longer_than_its_limit() -> None:
    too_long = {str(path): lines for path, text in modules() if (lines := text.count("\n")) > LONGEST_MODULE}
    assert not too_long


def test_no_function_is_longer_than_its_limit() -> None:
    too_long = {
        f"{path}:{node.lineno} {node.name}": length(node)
        for path, text in modules()
        for node in functions(text)
        if length(node) > LONGEST_FUNCTION
    }
    assert not too_long


def test_nine_functions_in_ten_fit_on_a_screen() -> None:
    lengths = sorted(length(node) for _, text in modules() for node in functions(text))
    assert lengths[len(lengths) * 9 // 10] < 36


def test_no_module_changes_its_own_globals() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, text in modules()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Global)
    ]
    assert not found

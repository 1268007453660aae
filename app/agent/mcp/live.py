"""The tools of an agent at this moment: its own, and those of its MCP servers that are known by now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from langchain_core.tools import BaseTool


class LiveTools(Sequence[Any]):
    """``own`` are there from the start, ``others`` gives the rest: who counts a request counts what it would hold."""

    def __init__(self, own: Iterable[BaseTool], others: Callable[[], Sequence[BaseTool]]) -> None:
        self.own = tuple(own)
        self._others = others

    def __len__(self) -> int:
        return len(self.own) + len(self._others())

    def __iter__(self) -> Iterator[Any]:
        yield from (*self.own, *self._others())

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return (*self.own, *self._others())[index]

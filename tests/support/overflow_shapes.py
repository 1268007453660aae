"""How providers say that a request was too long, and how they say other things that sound like it.

``tests/data/provider-errors.json`` holds the status and body a server answers with, as documentation and
users report them; ids are made up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent.parent / "data" / "provider-errors.json"


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """One published error. ``body`` is JSON, or a string for servers that send text.

    ``in_stream`` marks servers that answer 200 and put the error into the event stream.
    """

    name: str
    status: int
    body: Any
    in_stream: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def text(self) -> str:
        """The body as it goes over the wire."""
        return self.body if isinstance(self.body, str) else json.dumps(self.body)


def _load(kind: str) -> tuple[ErrorShape, ...]:
    return tuple(ErrorShape(**row) for row in json.loads(_FILE.read_text(encoding="utf-8"))[kind])


OVERFLOWS = _load("overflows")
LOOKALIKES = _load("lookalikes")

"""Answers of the API: one JSON encoder for all of them, which understands messages and states."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from app.serialization import dumps


class Json(JSONResponse):
    """A JSON answer of any value that ``app.serialization.dumps`` takes; pydantic does not see it again."""

    def render(self, content: Any) -> bytes:
        return dumps(content)


def no_content(status_code: int = 204) -> Response:
    """An empty answer: 204 done, or 202 accepted."""
    return Response(status_code=status_code)

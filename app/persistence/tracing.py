"""A span for every statement of a request or a run that is traced."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opentelemetry.trace import SpanKind
from psycopg import AsyncCursor, sql
from psycopg.abc import Params, Query
from psycopg.rows import Row

from app.telemetry import is_traced, span

MAX_STATEMENT_CHARACTERS = 500


class TracedCursor(AsyncCursor[Row]):
    """What a cursor executes, without the values: those are texts of people."""

    async def execute(self, query: Query, params: Params | None = None, **options: Any) -> Any:
        with self._span(query):
            # psycopg's own stub takes less here than its type for queries says.
            return await super().execute(query, params, **options)  # type: ignore[arg-type]

    async def executemany(self, query: Query, params_seq: Any, **options: Any) -> None:
        with self._span(query):
            await super().executemany(query, params_seq, **options)

    def _span(self, query: Query) -> AbstractContextManager[Any]:
        if not is_traced():
            return nullcontext()
        statement = self._text(query)
        attributes = {"db.system.name": "postgresql", "db.query.text": statement[:MAX_STATEMENT_CHARACTERS]}
        return span(f"SQL {statement.split(maxsplit=1)[0].upper()}", attributes, kind=SpanKind.CLIENT)

    def _text(self, query: Query) -> str:
        match query:
            case str():
                text = query
            case bytes():
                text = query.decode(errors="replace")
            case sql.Composable():
                text = query.as_string(self)
            case _:
                text = "statement"
        return " ".join(text.split())

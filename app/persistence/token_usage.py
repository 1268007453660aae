"""What model calls used: one row a call, with the thread it was made for and who made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from psycopg.errors import ForeignKeyViolation
from psycopg_pool import AsyncConnectionPool

Caller = Literal["lead_agent", "subagent", "compaction", "title", "memory"]
CALLERS: tuple[Caller, ...] = ("lead_agent", "subagent", "compaction", "title", "memory")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a chat model, with the tokens that its provider reported (0: none). ``call_id`` is a uuid,
    ``message_id`` that of the answer."""

    call_id: str
    thread_id: str
    run_id: str | None
    caller: Caller
    model_name: str
    message_id: str | None
    input_tokens: int
    output_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Answered:
    """Which run an answer is from, and when it was there."""

    run_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class UsageLine:
    """The sum of a thread's calls by one caller of one model. ``runs`` counts the runs that made them."""

    caller: Caller
    model_name: str
    calls: int
    input_tokens: int
    output_tokens: int
    total_tokens: int


class TokenUsageStore:
    """The ``token_usage`` table, and what compactions used, from their records. ``noted`` is told of each call."""

    def __init__(
        self, pool: AsyncConnectionPool[Any], noted: Callable[[ModelCall], None] | None = None
    ) -> None:
        self._pool = pool
        self._noted = noted

    async def add(self, calls: Sequence[ModelCall]) -> None:
        """Note calls. One that was noted already is left alone, and so is what belongs to a thread that is gone."""
        async with self._pool.connection() as conn:
            for call in calls:
                try:
                    added = await conn.execute(_ADD, asdict(call))
                except ForeignKeyViolation:
                    # The thread was deleted at this moment, and its usage with it.
                    continue
                if self._noted and added.rowcount:
                    self._noted(call)

    async def of_thread(self, thread_id: str) -> list[UsageLine]:
        """The thread's usage by caller and model."""
        return [UsageLine(**row) for row in await self._rows(_SUMS, thread_id)]

    async def runs_of(self, thread_id: str) -> Mapping[str, int]:
        """How many runs called each model, and under the empty name how many called any."""
        return {row["model_name"] or "": row["runs"] for row in await self._rows(_RUNS, thread_id)}

    async def answered(self, thread_id: str, message_ids: Sequence[str]) -> Mapping[str, Answered]:
        """The runs that these messages are answers of, as far as that is known."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_ANSWERED, (thread_id, list(message_ids)))
            return {
                row["message_id"]: Answered(str(row["run_id"]), row["created_at"])
                for row in await cursor.fetchall()
            }

    async def _rows(self, statement: str, thread_id: str) -> list[Mapping[str, Any]]:
        async with self._pool.connection() as conn:
            return list(await (await conn.execute(statement, {"thread": thread_id})).fetchall())


_ADD = """
INSERT INTO token_usage (call_id, thread_id, run_id, caller, model_name, message_id, input_tokens,
    output_tokens, total_tokens)
SELECT %(call_id)s::uuid, thread_id, %(run_id)s::uuid, %(caller)s, %(model_name)s, %(message_id)s,
    %(input_tokens)s, %(output_tokens)s, %(total_tokens)s
FROM threads WHERE thread_id = %(thread_id)s
ON CONFLICT DO NOTHING
"""
_ANSWERED = """
SELECT message_id, run_id, created_at FROM token_usage
WHERE thread_id = %s AND message_id = ANY(%s) AND run_id IS NOT NULL
"""
# A compaction is charged to the model that wrote its summary, a failed one to the last that tried.
_CALLS = """
SELECT caller, model_name, run_id, 1 AS calls, input_tokens, output_tokens, total_tokens
FROM token_usage WHERE thread_id = %(thread)s
UNION ALL
SELECT 'compaction', coalesce(model_name, models_tried->-1->>'name', 'unknown'), run_id, 1,
    coalesce((usage->>'input_tokens')::bigint, 0), coalesce((usage->>'output_tokens')::bigint, 0),
    coalesce((usage->>'total_tokens')::bigint, 0)
FROM compactions WHERE thread_id = %(thread)s AND usage->>'total_tokens' IS NOT NULL
"""
_SUMS = f"""
SELECT caller, model_name, sum(calls)::bigint AS calls, sum(input_tokens)::bigint AS input_tokens,
    sum(output_tokens)::bigint AS output_tokens, sum(total_tokens)::bigint AS total_tokens
FROM ({_CALLS}) AS calls GROUP BY caller, model_name ORDER BY caller, model_name
"""
_RUNS = f"""
SELECT model_name, count(DISTINCT run_id) AS runs FROM ({_CALLS}) AS calls GROUP BY ROLLUP (model_name)
"""

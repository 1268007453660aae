"""What is known of a person, as the person sees it: listed, written, deleted; and as a thread is told it."""

from __future__ import annotations

from typing import Any

from app.compaction.shorten import Count
from app.config import MemorySettings
from app.errors import Conflict, InvalidInput, NotFound
from app.persistence.memory import Fact, MemoryStore, Note
from app.persistence.threads import ThreadStore
from app.services.memory.notes import KEY, MAX_KEY_LENGTH, MAX_TEXT_LENGTH
from app.services.memory.prompt import remembered
from app.services.problems import invalid


class MemoryService:
    """Belongs to the person: no thread changes with it, and it stays when a thread is deleted. Works as well when
    nothing new is noted (``memory.enabled`` false), so that what is kept can be looked at and deleted."""

    def __init__(
        self, settings: MemorySettings, store: MemoryStore, threads: ThreadStore, count: Count
    ) -> None:
        self._settings = settings
        self._store = store
        self._threads = threads
        self._count = count

    async def recall(self, thread_id: str) -> str | None:
        """The block that a thread is given once, within ``memory.max_injected_tokens``; None when nothing is known."""
        thread = await self._threads.find(thread_id)
        if thread is None:
            return None
        facts = await self._store.facts(thread.owner)
        return remembered([fact.text for fact in facts], self._settings.max_injected_tokens, self._count)

    async def facts(self, owner: str) -> list[dict[str, Any]]:
        """The newest first."""
        return [fact_to_json(fact) for fact in await self._store.facts(owner)]

    async def get(self, owner: str, key: str) -> dict[str, Any]:
        """Raises InvalidInput for what is no key, NotFound."""
        return fact_to_json(await self._get(owner, check_key(key)))

    async def put(self, owner: str, key: str, text: str) -> dict[str, Any]:
        """Write a fact by hand; from then on no model changes it. Raises InvalidInput, Conflict (there is no room)."""
        key, words = check_key(key), text.strip()
        if not words or len(words) > MAX_TEXT_LENGTH:
            raise InvalidInput(f"body.text: must have 1 to {MAX_TEXT_LENGTH} characters, got {len(words)}")
        known = {fact.key: fact for fact in await self._store.facts(owner)}
        if key not in known and len(known) >= self._settings.max_facts:
            raise Conflict(
                f"There are {len(known)} facts already, which is the most (memory.max_facts)",
                code="memory_full",
            )
        told_in = known[key].thread_id if key in known else None
        await self._store.write(owner, [Note(key, words, told_in, edited=True)])
        return fact_to_json(await self._get(owner, key))

    async def delete(self, owner: str, key: str) -> None:
        """Raises InvalidInput for what is no key, NotFound."""
        await self._store.write(owner, [], [(await self._get(owner, check_key(key))).key])

    async def clear(self, owner: str) -> None:
        """Forget everything."""
        await self._store.write(owner, [], [fact.key for fact in await self._store.facts(owner)])

    async def _get(self, owner: str, key: str) -> Fact:
        fact = await self._store.get(owner, key)
        if fact is None:
            raise NotFound(f"There is no fact {key}")
        return fact


def check_key(key: str) -> str:
    """Raises InvalidInput for what is no key of a fact."""
    if not KEY.fullmatch(key):
        rule = f"must be 1 to {MAX_KEY_LENGTH} letters, digits, _, . or -, and start with a letter or digit"
        raise invalid("path.key", rule, key)
    return key


def fact_to_json(fact: Fact) -> dict[str, Any]:
    return {
        "key": fact.key,
        "text": fact.text,
        "thread_id": fact.thread_id,
        "created_at": fact.created_at,
        "updated_at": fact.updated_at,
    }

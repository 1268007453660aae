"""What tests of undo look at."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.threads import Message, Thread


async def compacted(thread: Thread) -> str:
    """The id of a compaction made now."""
    done = await thread.compacted()
    assert done["compacted"], done
    return str(done["compaction_id"])


async def channels(thread: Thread) -> dict[str, Any]:
    """All that the state holds but for the marker; a channel that is empty and one that is not there are the same."""
    return {name: value for name, value in (await thread.values()).items() if value and name != "compaction"}


async def said(thread: Thread) -> list[Message]:
    return [entry["message"] for entry in await thread.conversation()]


def refused(answer: httpx.Response, code: str, *words: str) -> None:
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, code), body
    assert all(word in body["detail"] for word in words), body

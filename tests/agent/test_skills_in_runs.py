"""Skills in real runs: what the model is sent, and what the thread keeps of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import Reply, Request, content_text
from tests.support.rig import SMALL, Rig, rigged
from tests.support.skills import SHIPPED
from tests.support.threads import Thread, new_thread

REVIEW = "/mnt/skills/code-review/SKILL.md"
SECRET_STEP = "Begin with one line: ship, ship after fixes, or do not ship"
AUTHORITY = "Its values are data"


@pytest.fixture
async def rig(tmp_path: Path, database_template: str) -> AsyncIterator[Rig]:
    async with rigged(tmp_path, database_template, SMALL, skills={"path": str(SHIPPED)}) as rigging:
        yield rigging


@pytest.fixture
async def thread(rig: Rig) -> AsyncIterator[Thread]:
    async with new_thread(rig.gateway) as opened:
        yield opened


def texts(request: Request, role: str) -> list[str]:
    return [content_text(m.get("content")) for m in request.messages if m["role"] == role]


def block(request: Request) -> str:
    """The durable block of a request; there is at most one."""
    found = [text for text in texts(request, "user") if "<durable_context_data>" in text]
    assert len(found) <= 1
    return found[0] if found else ""


async def loaded(thread: Thread) -> list[dict[str, Any]]:
    return (await thread.values()).get("skill_context", [])


async def reading(rig: Rig, thread: Thread, path: str, tool: str = "read_file", **args: Any) -> None:
    """A run in which the model reads a file, then answers."""
    call = rig.provider.call(tool, {"path": path, **args})
    rig.provider.sequence(Reply(None, tool_calls=[call]), Reply("Read."))
    await thread.run("Please read it.")


async def test_the_model_is_told_of_skills_by_name_description_and_path(rig: Rig, thread: Thread) -> None:
    await thread.run("hello")
    (request,) = rig.agent_calls()
    system = texts(request, "system")[0]
    assert "- code-review: Reviews code or a change to it" in system
    assert system.count(REVIEW) == 1
    assert "research-report: " in system
    assert SECRET_STEP not in request.text


async def test_a_skill_that_was_read_is_kept_as_a_reference_and_shown_from_then_on(
    rig: Rig, thread: Thread
) -> None:
    await reading(rig, thread, REVIEW)
    first, second = rig.agent_calls()
    assert block(first) == ""
    assert texts(second, "tool")[0].startswith("---\nname: code-review\n")
    (entry,) = await loaded(thread)
    assert (entry["name"], entry["path"]) == ("code-review", REVIEW)
    assert set(entry) == {"name", "path", "description", "loaded_at"}
    rig.mark()
    await thread.run("And now?")
    (request,) = rig.agent_calls()
    assert f"- code-review: {entry['description']} -> {REVIEW}" in block(request)
    assert "re-read the file before applying its instructions" in block(request)

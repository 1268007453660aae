"""One long conversation over HTTP: what must survive compaction and a restart does, once each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import Reply, Request
from tests.support.provider import Provider
from tests.support.service import Process, config, running
from tests.support.skills import write_skill

SUMMARY = "## Intent\nThe person wants three towns compared.\n\n## State\nThe reports are in."
TOWNS = ("Ashford", "Brindle", "Colby")
BACKGROUND = " ".join(f"Note {number}: the river floods in spring." for number in range(400))
DURABLE = "<durable_context_data>"


def settings(provider: Provider, skills: Path) -> dict[str, Any]:
    model = {
        "name": "stand-in",
        "use": "langchain_openai:ChatOpenAI",
        "model": "stand-in",
        "base_url": provider.base_url,
        "api_key": "none",
    }
    return config(
        models=[model],
        skills={"path": str(skills)},
        title={"enabled": False},
        dynamic_context={"enabled": True},
        summarization={"keep": {"type": "messages", "value": 2}},
    )


def script(provider: Provider) -> None:
    """Subagents and summaries are told by what they are asked; the agent's own turns come in order."""
    for town in TOWNS:
        provider.when(_asked_for(town), Reply(f"{town} has {len(town)} bridges."))
    provider.when(lambda request: "<new_messages>" in request.text, Reply(SUMMARY))
    call = provider.call
    todos = [{"content": "compare the towns", "status": "in_progress"}]
    provider.sequence(
        Reply(None, tool_calls=(call("read_file", {"path": "/mnt/skills/tidy/SKILL.md"}),)),
        Reply(None, tool_calls=(call("write_todos", {"todos": todos}),)),
        Reply(None, tool_calls=tuple(call("task", _errand(town)) for town in TOWNS)),
        Reply(None, tool_calls=(call("ask_clarification", {"question": "Which year?"}),)),
        Reply("Compared for 1999."),
        Reply("Certainly."),
        Reply("As I said."),
    )


def _errand(town: str) -> dict[str, str]:
    prompt = f"Count the bridges of {town}."
    return {"description": f"Look at {town}", "prompt": prompt, "subagent_type": "general-purpose"}


def _asked_for(town: str) -> Any:
    def condition(request: Request) -> bool:
        return str(request.messages[-1].get("content")) == f"Count the bridges of {town}."

    return condition


async def say(client: Any, thread_id: str, text: str) -> dict[str, Any]:
    values = await client.runs.wait(
        thread_id, "agent", input={"messages": [{"role": "user", "content": text}]}
    )
    return dict(values)


def block_of(request: Request) -> str:
    """The durable block of a request: there is one, and it is no system message."""
    (message,) = [m for m in request.messages if DURABLE in str(m.get("content")) and m["role"] == "user"]
    return str(message["content"])


async def worked(service: Process) -> str:
    """Skill, todos, three delegations at once, a question, its answer, a compaction; returns the thread."""
    client = service.client()
    thread_id = str((await client.threads.create())["thread_id"])
    asked = await say(client, thread_id, f"Compare the three towns. {BACKGROUND}")
    assert asked["__interrupt__"]
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    async with service.http() as http:
        refused = await http.post(f"/threads/{thread_id}/compact", json={})
        assert (refused.status_code, refused.json()["code"]) == (409, "thread_interrupted")
        answered = await client.runs.wait(thread_id, "agent", command={"resume": "1999"})
        assert answered["messages"][-1]["content"] == "Compared for 1999."
        await say(client, thread_id, "Thank you.")
        compacted = (await http.post(f"/threads/{thread_id}/compact", json={})).json()
        assert compacted["compacted"], compacted
    return thread_id


@pytest.mark.timeout(150)
async def test_skill_delegations_todos_and_answer_survive_compaction_and_restart(
    open_folder: Path, provider: Provider
) -> None:
    write_skill(open_folder / "skills")
    script(provider)
    given = settings(provider, open_folder / "skills")
    async with running(open_folder, given) as service:
        thread_id = await worked(service)
    async with running(open_folder, given) as service:
        client = service.client()
        values = await say(client, thread_id, "And what about the bridges?")
    request = provider.chats[-1]
    block = block_of(request)
    assert block.count("The person wants three towns compared.") == 1
    for town in TOWNS:
        assert block.count(f"{town} has {len(town)} bridges.") == 1
    assert block.count("/mnt/skills/tidy/SKILL.md") == 1
    assert block.count("compare the towns") == 1
    said = [str(m.get("content")) for m in request.messages if m["role"] == "system"]
    assert not any("bridges" in text or "three towns" in text for text in said)
    assert [entry["status"] for entry in values["delegations"]] == ["completed"] * 3
    assert json.dumps(request.messages).count("And what about the bridges?") == 1
    assert values["messages"][-1]["content"] == "As I said."

"""A thread of a served application, as a test of compaction handles it, and what such a test puts into it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
from langgraph_sdk.client import LangGraphClient

from tests.support.answers import Request
from tests.support.provider import Provider

Message = dict[str, Any]

SUMMARY = (
    "## Intent\nThe user plans a garden of forty beds and wants the list of plants in beds.md.\n"
    "## State of the work\nDone: the beds were measured. Next: order the seeds."
)


class Served(Protocol):
    """A gateway in this process, or a process of its own."""

    @property
    def api(self) -> str: ...

    def client(self) -> LangGraphClient: ...

    def http(self) -> httpx.AsyncClient: ...


def is_summary_call(request: Request) -> bool:
    """The request asks for a summary."""
    return "<new_messages>" in request.text


def is_title_call(request: Request) -> bool:
    """The request asks for a title."""
    return "<conversation_opening>" in request.text


def is_main_call(request: Request) -> bool:
    """The request is the agent's own."""
    return not is_summary_call(request) and not is_title_call(request)


async def summaries_asked(provider: Provider, count: int) -> None:
    """Wait until so many summary calls have arrived, whatever else has. Raises TimeoutError as the provider does."""
    arrived = 0
    while (missing := count - sum(map(is_summary_call, provider.chats[:arrived]))) > 0:
        arrived = len(await provider.asked(arrived + missing))


def is_paired(request: Request) -> bool:
    """As providers want it: behind each message with calls stands one result for each of them, and none elsewhere."""
    wanted: list[str] = []
    for message in request.messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in wanted:
                return False
            wanted.remove(message["tool_call_id"])
            continue
        if wanted:
            return False
        wanted = [call["id"] for call in message.get("tool_calls") or []]
    return not wanted


def stand_in(name: str, provider: Provider, **settings: Any) -> dict[str, Any]:
    """A model of config.yaml that is the provider stand-in, under its own name there too."""
    return {
        "name": name,
        "use": "langchain_openai:ChatOpenAI",
        "model": name,
        "base_url": provider.base_url,
        "api_key": "sk-stand-in-0123456789",
        **settings,
    }


def talk(exchanges: int, *, words: int = 40, start: int = 0) -> list[Message]:
    """Questions and answers, each with words of its own; about 1.5 tokens a word."""
    return [
        message
        for number in range(start, start + exchanges)
        for message in (
            {"type": "human", "id": f"q{number}", "content": _prose(f"Question {number}", words)},
            {"type": "ai", "id": f"a{number}", "content": _prose(f"Answer {number}", words)},
        )
    ]


def tool_round(number: int, size: int, *, calls: int = 1) -> list[Message]:
    """A message with tool calls and their results of ``size`` characters each."""
    ids = [f"call-{number}-{index}" for index in range(calls)]
    asked = [
        {"name": "read_file", "args": {"path": f"{call_id}.txt"}, "id": call_id, "type": "tool_call"}
        for call_id in ids
    ]
    results = [
        {
            "type": "tool",
            "id": f"result-{call_id}",
            "tool_call_id": call_id,
            "name": "read_file",
            "content": _prose(f"File {call_id}", size // 7)[:size],
        }
        for call_id in ids
    ]
    return [{"type": "ai", "id": f"t{number}", "content": "", "tool_calls": asked}, *results]


def _prose(subject: str, words: int) -> str:
    return f"{subject}: " + " ".join(f"{subject.split()[-1]}w{index:03}" for index in range(words))


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread and the requests that a test makes on it."""

    id: str
    client: LangGraphClient
    http: httpx.AsyncClient

    async def put(self, messages: Sequence[Message]) -> None:
        """Append messages to the state."""
        await self.client.threads.update_state(self.id, {"messages": list(messages)})

    async def state(self) -> dict[str, Any]:
        return (await self.http.get(f"/threads/{self.id}/state")).json()  # type: ignore[no-any-return]

    async def values(self) -> dict[str, Any]:
        return (await self.state())["values"]  # type: ignore[no-any-return]

    async def messages(self) -> list[Message]:
        return (await self.values()).get("messages", [])  # type: ignore[no-any-return]

    async def ids(self) -> list[str]:
        return [message["id"] for message in await self.messages()]

    async def compact(self, **body: Any) -> httpx.Response:
        return await self.http.post(f"/threads/{self.id}/compact", json=body)

    async def compacted(self, **body: Any) -> dict[str, Any]:
        """The answer of a compaction that must be a 200."""
        response = await self.compact(**body)
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    async def context(self) -> dict[str, Any]:
        return (await self.http.get(f"/threads/{self.id}/context")).json()  # type: ignore[no-any-return]

    async def records(self) -> list[dict[str, Any]]:
        """Newest first."""
        answer = (await self.http.get(f"/threads/{self.id}/compactions")).json()
        return answer["data"]  # type: ignore[no-any-return]

    async def record(self, compaction_id: str) -> dict[str, Any]:
        response = await self.http.get(f"/threads/{self.id}/compactions/{compaction_id}")
        return response.json()  # type: ignore[no-any-return]

    async def undo(self, compaction_id: str, **body: Any) -> httpx.Response:
        return await self.http.post(f"/threads/{self.id}/compactions/{compaction_id}/undo", json=body)

    async def redo(self, compaction_id: str) -> httpx.Response:
        return await self.http.post(f"/threads/{self.id}/compactions/{compaction_id}/redo")

    async def undone(self, compaction_id: str, **body: Any) -> dict[str, Any]:
        """The answer of an undo that must be a 200."""
        response = await self.undo(compaction_id, **body)
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    async def redone(self, compaction_id: str) -> dict[str, Any]:
        """The answer of a redo that must be a 200."""
        response = await self.redo(compaction_id)
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    async def page(self, **query: Any) -> dict[str, Any]:
        """A page of the whole conversation."""
        response = await self.http.get(f"/threads/{self.id}/messages", params=query)
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    async def conversation(self, limit: int = 50, **query: Any) -> list[dict[str, Any]]:
        """All entries of the whole conversation, oldest first, hidden ones included, page by page."""
        page = await self.page(limit=limit, include_hidden=True, **query)
        entries: list[dict[str, Any]] = page["data"]
        while page["has_more"]:
            before = page["next_before_seq"]
            page = await self.page(limit=limit, include_hidden=True, before_seq=before, **query)
            entries = page["data"] + entries
        return entries

    async def run(
        self, text: str = "go on", *, modes: Sequence[str] = ("custom",), **options: Any
    ) -> list[Any]:
        """Run with this question; all parts of the stream."""
        return [
            part
            async for part in self.client.runs.stream(
                self.id,
                "agent",
                input={"messages": [{"role": "user", "content": text}]},
                stream_mode=list(modes),  # type: ignore[arg-type]
                **options,
            )
        ]


@asynccontextmanager
async def seen_from(served: Served, thread: Thread) -> AsyncIterator[Thread]:
    """The same thread at another replica."""
    async with served.client() as client, served.http() as http:
        yield Thread(thread.id, client, http)


@asynccontextmanager
async def new_thread(served: Served, messages: Sequence[Message] = ()) -> AsyncIterator[Thread]:
    """A thread of its own that holds ``messages``."""
    async with served.client() as client, served.http() as http:
        thread = Thread((await client.threads.create())["thread_id"], client, http)
        if messages:
            await thread.put(messages)
        yield thread


def events_of(parts: Sequence[Any], kind: str = "context_compaction") -> list[dict[str, Any]]:
    """The ``custom`` events of this type."""
    return [part.data for part in parts if part.event == "custom" and part.data.get("type") == kind]


def statuses(parts: Sequence[Any]) -> list[str]:
    """What the compaction events said, in order."""
    return [event["status"] for event in events_of(parts)]

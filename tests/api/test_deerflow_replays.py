"""DeerFlow's chat: the newest question asked again, edited, and a thread branched, in the order of its own calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.support.deerflow import Body, history, replayed, sent, streamed, submitted
from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = " ".join(f"of the garden bed {number}" for number in range(60))
SECTIONS = {
    "graphs": {"own": "./own.py:graph"},
    "summarization": {"keep": {"type": "messages", "value": 2}},
    "dynamic_context": {"enabled": True},
}
HOSTED = """
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph


async def answer(state):
    return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END)
"""


class Chat:
    """A thread as the chat has it. Bodies and answers are those of its calls."""

    def __init__(self, http: httpx.AsyncClient, thread_id: str) -> None:
        self.http = http
        self.id = thread_id

    async def post(self, path: str, body: Mapping[str, Any], status: int = 200) -> Body:
        answer = await self.http.post(f"/api/threads/{self.id}{path}", json=body)
        assert answer.status_code == status, answer.text
        found: Body = answer.json()
        return found

    async def say(self, text: str) -> str:
        return await sent(self.http, self.id, text)

    async def regenerate(self, message_id: str, status: int = 200) -> Body:
        return await self.post("/runs/regenerate/prepare", {"message_id": message_id}, status)

    async def edit(self, message_id: str, text: str, status: int = 200) -> Body:
        body = {"human_message_id": message_id, "replacement_text": text}
        return await self.post("/runs/edit-regenerate/prepare", body, status)

    async def replay(self, prepared: Body) -> str:
        return await streamed(self.http, self.id, replayed(prepared, self.id))

    async def branch(self, message_id: str, status: int = 200, **body: Any) -> Body:
        return await self.post(
            "/branches", {"message_id": message_id, "message_ids": [message_id], **body}, status
        )

    async def rows(self) -> list[Body]:
        return await history(self.http, self.id, 50)

    async def texts(self) -> list[str]:
        return [text_of(row["content"]) for row in await self.rows()]

    async def state(self) -> Body:
        answer = await self.http.get(f"/api/langgraph/threads/{self.id}/state")
        found: Body = answer.json()
        return found

    async def branches(self) -> list[Body]:
        wanted = {"metadata": {"branch_parent_thread_id": self.id}}
        found: list[Body] = (await self.http.post("/api/langgraph/threads/search", json=wanted)).json()
        return found

    async def last(self, kind: str) -> str:
        """The id of the newest message of a kind."""
        return str([row["content"] for row in await self.rows() if row["content"]["type"] == kind][-1]["id"])


def text_of(message: Body) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def questions(texts: list[str]) -> list[str]:
    return texts[::2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("deerflow")
    (folder / "own.py").write_text(HOSTED)
    async with clone(database_template) as url, serving(folder, url, SECTIONS) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def chat(served: Gateway) -> AsyncIterator[Chat]:
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as http:
        thread_id = (await http.post("/api/langgraph/threads", json={})).json()["thread_id"]
        yield Chat(http, thread_id)


@pytest.mark.parametrize("turns", [1, 3])
async def test_an_answer_is_given_anew_and_takes_the_place_of_the_first(chat: Chat, turns: int) -> None:
    runs = [await chat.say(f"question {number}") for number in range(turns)]
    before = await chat.rows()
    answer_id = before[-1]["content"]["id"]
    prepared = await chat.regenerate(answer_id)
    assert prepared["target_run_id"] == runs[-1]
    assert prepared["input"]["messages"][0]["content"] == [{"type": "text", "text": f"question {turns - 1}"}]
    assert prepared["metadata"] == {
        "regenerate_from_message_id": answer_id,
        "regenerate_from_run_id": runs[-1],
        "regenerate_checkpoint_id": prepared["checkpoint"]["checkpoint_id"],
    }
    assert await chat.rows() == before
    again = await chat.replay(prepared)
    after = await chat.rows()
    assert [row["run_id"] for row in after] == [run_id for run_id in [*runs[:-1], again] for _ in "qa"]
    assert questions([text_of(row["content"]) for row in after]) == [f"question {n}" for n in range(turns)]
    assert after[-1]["content"]["id"] != answer_id
    assert after[:-2] == before[:-2]
    listed = (await chat.http.get(f"/api/langgraph/threads/{chat.id}/runs/{again}")).json()
    assert listed["metadata"]["regenerate_from_run_id"] == runs[-1]
    # And once more, from the branch that the thread is on now.
    assert (await chat.regenerate(after[-1]["content"]["id"]))["target_run_id"] == again


async def test_a_name_that_a_person_gave_since_stays_when_an_answer_is_given_anew(chat: Chat) -> None:
    await chat.say("question 0")
    await chat.post("/state", {"values": {"title": "A name"}})
    await chat.replay(await chat.regenerate(await chat.last("ai")))
    assert (await chat.state())["values"]["title"] == "A name"


async def test_a_question_is_edited_and_answered(chat: Chat) -> None:
    await chat.say("question 0")
    run_id = await chat.say("qestion 1")
    question_id, answer_id = await chat.last("human"), await chat.last("ai")
    prepared = await chat.edit(question_id, "  question 1 ")
    new_id = prepared["replacement_human_message_id"]
    (message,) = prepared["input"]["messages"]
    assert (message["id"], message["content"]) == (new_id, [{"type": "text", "text": "question 1"}])
    assert prepared["source_message_ids"] == [question_id, answer_id]
    assert prepared["target_run_id"] == run_id
    assert (
        prepared["metadata"].items()
        >= {
            "replay_kind": "edit",
            "edit_from_message_id": question_id,
            "edit_message_id": new_id,
            "edit_version_group_id": question_id,
        }.items()
    )
    await chat.replay(prepared)
    assert questions(await chat.texts()) == ["question 0", "question 1"]
    second = await chat.edit(await chat.last("human"), "question one")
    assert second["metadata"]["edit_version_group_id"] == question_id


async def test_a_first_question_that_is_edited_names_the_thread_anew(chat: Chat) -> None:
    await chat.say("beans please")
    prepared = await chat.edit(await chat.last("human"), "rather peas")
    assert "title" not in prepared["input"]
    await chat.replay(prepared)
    assert (await chat.state())["values"]["title"].startswith("rather peas")
    assert questions(await chat.texts()) == ["rather peas"]


async def test_images_stay_with_an_edited_question(chat: Chat) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    body = submitted("look", chat.id)
    body["input"]["messages"][0]["content"].append(image)
    await streamed(chat.http, chat.id, body)
    prepared = await chat.edit(await chat.last("human"), "look again")
    assert prepared["input"]["messages"][0]["content"] == [{"type": "text", "text": "look again"}, image]


async def test_the_turn_before_a_compaction_is_found_behind_it(chat: Chat) -> None:
    for number in range(3):
        await chat.say(f"question {number} {LONG}")
    assert (await chat.post("/compact", {}))["compacted"] is True
    prepared = await chat.regenerate(await chat.last("ai"))
    await chat.replay(prepared)
    # The state that the question was asked in is the one before the compaction: all stands in it again.
    assert [text[:10] for text in questions(await chat.texts())] == [f"question {n}" for n in range(3)]
    assert len((await chat.state())["values"]["messages"]) >= 6


async def test_an_answer_that_was_cut_off_is_given_anew(chat: Chat) -> None:
    await chat.say("question 0")
    stopped = (
        await chat.http.post(f"/api/langgraph/threads/{chat.id}/runs", json=submitted("/slow 2000", chat.id))
    ).json()["run_id"]
    seen = "lc_run--cut-off"
    refused = await chat.regenerate(seen, 409)
    assert refused["code"] == "thread_busy"
    url = f"/api/langgraph/threads/{chat.id}/runs/{stopped}"
    async with chat.http.stream("GET", f"{url}/stream") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("event: values"):
                break
    assert (await chat.http.post(f"{url}/cancel?wait=1")).status_code < 300
    prepared = await chat.regenerate(seen)
    assert prepared["target_run_id"] == stopped
    assert text_of(prepared["input"]["messages"][0]) == "/slow 2000"


async def test_only_the_newest_turn_is_replayed(chat: Chat) -> None:
    await chat.say("question 0")
    first = await chat.rows()
    await chat.say("question 1")
    question_id, old_answer = first[0]["content"]["id"], first[1]["content"]["id"]
    assert (await chat.regenerate(old_answer, 409))["code"] == "not_latest_turn"
    assert (await chat.regenerate(await chat.last("human"), 409))["code"] == "not_latest_turn"
    assert (await chat.regenerate("nobody-said-that", 404))["code"] == "not_found"
    assert (await chat.edit(question_id, "other", 409))["code"] == "not_latest_turn"
    newest = await chat.last("human")
    assert (await chat.edit(newest, "question 1", 409))["code"] == "message_unchanged"
    assert "replacement_text" in (await chat.edit(newest, "  ", 422))["detail"]
    await chat.post("/runs/regenerate/prepare", {}, 422)
    await chat.post("/branches", {"message_id": "x", "colour": "red"}, 422)
    empty = (await chat.http.post("/api/langgraph/threads", json={})).json()["thread_id"]
    await Chat(chat.http, empty).regenerate(old_answer, 404)
    await Chat(chat.http, empty).branch(old_answer, 404)


async def test_a_branch_goes_on_from_an_earlier_turn_and_leaves_the_thread_alone(chat: Chat) -> None:
    for number in range(3):
        await chat.say(f"question {number} {LONG}")
    rows = await chat.rows()
    assert (await chat.post("/compact", {}))["compacted"] is True
    answer_id = rows[3]["content"]["id"]
    branch = await chat.branch(answer_id, title="Another way")
    assert branch["parent_thread_id"] == chat.id
    assert branch["branched_from_message_id"] == answer_id
    other = Chat(chat.http, branch["thread_id"])
    assert [row["content"] for row in await other.rows()] == [row["content"] for row in rows[:4]]
    shown = (await chat.http.get(f"/api/langgraph/threads/{other.id}")).json()
    assert shown["status"] == "idle"
    assert shown["values"]["title"] == "Another way"
    assert (
        shown["metadata"].items()
        >= {
            "deerflow_branch": True,
            "branch_parent_thread_id": chat.id,
            "branch_parent_message_id": answer_id,
            "branch_parent_checkpoint_id": branch["parent_checkpoint_id"],
        }.items()
    )
    found = (await chat.http.get(f"/api/threads/{other.id}/messages/search", params={"q": "question"})).json()
    assert {hit["message_id"] for hit in found["data"]} <= {row["content"]["id"] for row in rows[:4]}
    await other.say("another question")
    assert len(await other.rows()) == 6
    assert await chat.rows() == rows
    assert [found["thread_id"] for found in await chat.branches()] == [other.id]
    await other.replay(await other.regenerate(await other.last("ai")))
    assert questions(await other.texts())[-1] == "another question"


async def test_a_branch_of_the_newest_turn_has_its_summary_and_its_inherited_answer_is_given_anew(
    chat: Chat,
) -> None:
    for number in range(3):
        await chat.say(f"question {number} {LONG}")
    assert (await chat.post("/compact", {}))["compacted"] is True
    branch = await chat.branch(await chat.last("ai"))
    other = Chat(chat.http, branch["thread_id"])
    mine, theirs = await chat.state(), await other.state()
    assert theirs["values"] == mine["values"]
    assert theirs["checkpoint_id"] == branch["parent_checkpoint_id"] == mine["checkpoint_id"]
    prepared = await other.regenerate(await other.last("ai"))
    assert prepared["target_run_id"] == ""
    await other.replay(prepared)
    assert len(await other.rows()) == 6


async def test_a_branch_begins_behind_an_answer(chat: Chat) -> None:
    await chat.say("question 0")
    refused = await chat.branch(await chat.last("human"), 409)
    assert refused["code"] == "not_an_answer"
    assert await chat.branches() == []


async def test_a_pruned_turn_is_neither_branched_nor_asked_again(chat: Chat) -> None:
    await chat.say("question 0")
    first = await chat.last("ai")
    await chat.say("question 1")
    body = {"thread_ids": [chat.id], "strategy": "keep_latest"}
    assert (await chat.http.post("/api/threads/prune", json=body)).json()["pruned_count"] == 1
    assert (await chat.branch(first, 409))["code"] == "checkpoint_gone"
    assert (await chat.regenerate(await chat.last("ai"), 409))["code"] == "checkpoint_gone"
    assert await chat.branches() == []


async def test_threads_of_a_hosted_graph_are_replayed_and_branched(chat: Chat) -> None:
    for number in range(3):
        body = {**submitted(f"question {number}", chat.id), "assistant_id": "own"}
        await streamed(chat.http, chat.id, body)
    first = (await chat.rows())[1]["content"]
    prepared = await chat.edit(await chat.last("human"), "question two")
    assert prepared["input"].keys() == {"messages"}
    await streamed(chat.http, chat.id, {**replayed(prepared, chat.id), "assistant_id": "own"})
    assert questions(await chat.texts()) == ["question 0", "question 1", "question two"]
    branch = await chat.branch(first["id"], title="No title here")
    assert await Chat(chat.http, branch["thread_id"]).texts() == ["question 0", "answer 1"]

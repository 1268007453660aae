"""Secrets in a conversation: they stay in it, and go nowhere from there."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from app.config import settings_from
from app.redaction import PLACEHOLDER, Redactor
from app.telemetry import set_up_logging
from tests.support.answers import Fail, Reply, Request
from tests.support.rig import SMALL, Rig, rigged
from tests.support.threads import SUMMARY, Message, Thread, is_title_call, new_thread, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "ghp_" + "a1B2c3D4" * 5
PASSWORD = "Tr0ub4dor_and_3"
OWN = "ACME-0123456789"
SECRETS = (KEY, PASSWORD, OWN)
URL = f"postgresql://ann:{PASSWORD}@db/garden"
PATTERNS = [{"name": "acme", "regex": "ACME-[0-9]{4,20}"}]
BESIDE = {"title": {"enabled": True}, "memory": {"enabled": True, "debounce_s": 0.05}}
PATIENCE_S = 20


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[True, False], ids=["kept", "not kept"])
async def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("secrets")
    sections = {"secrets": {"patterns": PATTERNS, "archive_originals": request.param}, **BESIDE}
    async with rigged(folder, database_template, SMALL, **sections) as rig:
        yield rig


def keeps_originals(rig: Rig) -> bool:
    return bool(rig.sections["secrets"]["archive_originals"])


def leaky() -> list[Message]:
    call = {"name": "read_file", "args": {"path": "a", "password": PASSWORD}, "id": "c1", "type": "tool_call"}
    return [
        {"type": "human", "id": "leak-1", "content": f"Deploy with {KEY} and {URL}"},
        {"type": "ai", "id": "leak-2", "content": "", "tool_calls": [call]},
        {"type": "tool", "id": "leak-3", "tool_call_id": "c1", "name": "read_file", "content": f"id={OWN}"},
        {"type": "ai", "id": "leak-4", "content": [{"type": "text", "text": f"It is {OWN}"}]},
        *talk(18),
    ]


def without(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


async def rows(rig: Rig, query: str) -> str:
    async with rig.gateway.core.database.pool.connection() as conn:
        return json.dumps(
            [list(row.values()) for row in await (await conn.execute(query)).fetchall()], default=str
        )


async def everything(thread: Thread) -> str:
    return json.dumps(await thread.conversation())


async def test_neither_the_summarizer_nor_the_summary_nor_the_record_has_them(rig: Rig) -> None:
    rig.summarizer(Reply(f"{SUMMARY}\nThe key is {KEY}, the database {URL}, the id {OWN}."))
    async with new_thread(rig.gateway, leaky()) as thread:
        done = await thread.compacted(instructions=f"keep in mind that the password is: {PASSWORD}")
        asked = "".join(call.text for call in rig.summary_calls())
        assert without(asked)
        assert len(set(PLACEHOLDER.findall(asked))) == 3
        assert "Deploy with [secret:github-token:" in asked
        summary = (await thread.values())["summary_text"]
        assert without(summary)
        assert set(PLACEHOLDER.findall(summary)) == set(PLACEHOLDER.findall(asked))
        record = await thread.record(done["compaction_id"])
        del record["removed_messages"]
        assert without(json.dumps(record))
        said, placeholder = record["instructions"].split(": ", 1)
        assert said == "keep in mind that the password is"
        assert asked.count(placeholder) >= 3


async def test_the_archive_keeps_what_was_said_only_if_that_is_wanted(rig: Rig) -> None:
    async with new_thread(rig.gateway, leaky()) as thread:
        before = await thread.messages()
        done = await thread.compacted()
        shown = await everything(thread)
        stored = await rows(
            rig,
            "SELECT message, encode(original, 'escape') FROM archived_messages "
            f"WHERE thread_id = '{thread.id}'",
        )
        assert without(shown) is without(stored) is not keeps_originals(rig)
        await thread.undone(done["compaction_id"], force=True)
        restored = await thread.messages()
        if keeps_originals(rig):
            assert restored == before
        else:
            assert without(json.dumps(restored))
            assert [message["id"] for message in restored] == [message["id"] for message in before]
            assert restored[1]["tool_calls"][0]["args"]["path"] == "a"


async def test_a_summary_that_a_person_wrote_has_none_either(rig: Rig) -> None:
    async with new_thread(rig.gateway, leaky()) as thread:
        draft = await thread.compacted(dry_run="summary")
        applied = await thread.http.post(
            f"/threads/{thread.id}/compactions/{draft['compaction_id']}/apply",
            json={"summary_text": f"The person deploys with {KEY}."},
        )
        assert applied.status_code == 200, applied.text
        assert (await thread.values())["summary_text"].startswith(
            "The person deploys with [secret:github-token:"
        )
        assert without(json.dumps(await thread.records()) + json.dumps(draft))


async def test_a_provider_that_repeats_what_it_was_sent_tells_nobody(rig: Rig) -> None:
    rig.summarizer(Fail(400, {"error": {"message": f"cannot read: {URL} {KEY} {OWN}", "type": "x"}}))
    rig.agent(Fail(400, {"error": {"message": f"cannot read: {URL} {KEY} {OWN}", "type": "x"}}))
    with logged() as lines:
        async with new_thread(rig.gateway, leaky()) as thread:
            refused = await thread.compact()
            assert refused.status_code == 502
            assert without(refused.text)
            assert without(json.dumps(await thread.records()))
            parts = await thread.run("go on")
            assert [part.data for part in parts if part.event == "error"]
            assert without(json.dumps([part.data for part in parts if part.event == "error"]))
            assert without(await rows(rig, "SELECT error FROM runs"))
            assert without(await rows(rig, "SELECT compaction_last_error, error FROM threads"))
            assert without(await rows(rig, "SELECT data FROM run_events WHERE event = 'error'"))
        logging.getLogger("app.test").warning("and %s", " ".join(SECRETS))
    # A value alone, with nothing around it that says what it is, is a word like any other.
    assert without(lines.getvalue().replace(f" {PASSWORD} ", ""))
    assert "failed" in lines.getvalue()


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """What the process would write into its log."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    lines = io.StringIO()
    try:
        set_up_logging("info", "json", redactor_of_the_log())
        handler = root.handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(lines)
        yield lines
    finally:
        root.handlers[:], level = before
        root.setLevel(level)


def redactor_of_the_log() -> Redactor:
    return Redactor(settings_from({"secrets": {"patterns": PATTERNS}}).secrets.shapes)


async def test_a_title_has_none(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        rig.agent(lambda request: Fail(400, {}) if is_title_call(request) else Reply("ok"))
        await thread.run(f"Deploy with {KEY} please")
        titles = [request for request in rig.agent_calls() if is_title_call(request)]
        assert titles
        assert all(without(request.text) for request in titles)
        assert "[secret:github-token:" in (await thread.values())["title"]
        assert KEY in (await thread.messages())[0]["content"]


async def test_who_notes_what_is_known_of_the_person_reads_none(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        await thread.run(f"I am Ann, and I deploy with {KEY} to {URL}")
        async with asyncio.timeout(PATIENCE_S):
            while not (read := [call for call in rig.agent_calls() if is_about_ann(call)]):
                await asyncio.sleep(0.05)
    assert all(without(call.text) for call in read)
    assert "I am Ann, and I deploy with [secret:github-token:" in read[0].text


def is_about_ann(request: Request) -> bool:
    """It is to be read for facts, among other threads of other tests."""
    return "<memory_transcript>" in request.text and "I am Ann" in request.text

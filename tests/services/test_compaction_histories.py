"""Histories as they really are: other scripts, images, parallel calls, broken pairs (rules B3, C3, C4, C8, D3)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.answers import Reply
from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import SUMMARY, Message, Thread, is_paired, new_thread, talk, tool_round

pytestmark = pytest.mark.asyncio(loop_scope="module")

HAN = "会议记录需要在周五之前完成，数据文件已经更新。"
EMOJI = "👩‍👩‍👧‍👦🎉🇩🇪 déjà vu — naïve ‮right to left‬ é"
CODE = 'if a < b && c > d:\n\treturn {"key": "</new_messages>", "n": [1, 2]}  # &amp; <think>\r\n'
PIXELS = base64.b64encode(bytes(range(256)) * 400).decode()


served = shared_rig("histories", SMALL)


def human(id_: str, content: Any) -> Message:
    return {"type": "human", "id": id_, "content": content}


def result(call_id: str, content: str = "found") -> Message:
    return {
        "type": "tool",
        "id": f"r-{call_id}",
        "tool_call_id": call_id,
        "name": "list_files",
        "content": content,
    }


def calling(id_: str, *call_ids: str) -> Message:
    calls = [{"name": "list_files", "args": {}, "id": call_id, "type": "tool_call"} for call_id in call_ids]
    return {"type": "ai", "id": id_, "content": "", "tool_calls": calls}


async def compacted_whole(thread: Thread, history: list[Message]) -> list[Message]:
    """Compact; every message is live or archived, in its order and word for word. What is live."""
    done = await thread.compacted()
    assert done["compacted"]
    live = await thread.messages()
    record = await thread.record(done["compaction_id"])
    found = {message["id"]: message for message in [*record["removed_messages"], *live]}
    assert len(found) == len(record["removed_messages"]) + len(live)
    assert {id_: message["content"] for id_, message in found.items()} == {
        message["id"]: message["content"] for message in history
    }
    order = [message["id"] for message in history]
    for part in (record["removed_messages"], live):
        ids = [message["id"] for message in part]
        assert ids == sorted(ids, key=order.index)
    return live


@pytest.mark.parametrize("text", [HAN, EMOJI, CODE], ids=["Han", "emoji", "code"])
async def test_other_scripts_and_code_survive_word_for_word(rig: Rig, text: str) -> None:
    history = [{**message, "content": f"{message['id']}: {text * 12}"} for message in talk(20)]
    async with new_thread(rig.gateway, history) as thread:
        rig.summarizer(Reply(f"## 意图\n{text.strip()[:20]} …"))
        live = await compacted_whole(thread, history)
        assert 0 < len(live) < 10
        (call,) = rig.summary_calls()
        assert call.text.count("<new_messages>") == call.text.count("</new_messages>") == 1
        assert text[:12] in call.text
        assert (await thread.values())["summary_text"].startswith("## 意图")
        rig.mark()
        await thread.run()
        assert "## 意图" in rig.agent_calls()[0].text


async def test_chinese_is_counted_as_what_it_is(rig: Rig) -> None:
    """A reference that takes four characters for a token would see a third of it and never compact."""
    async with new_thread(rig.gateway, [human("q", HAN * 100), *talk(1)]) as thread:
        tokens = (await thread.context())["tokens"]["messages"]
        assert 0.6 * len(HAN * 100) <= tokens <= 0.9 * len(HAN * 100) + 400


async def test_images_are_named_to_the_summariser_and_never_sent_as_text(rig: Rig) -> None:
    picture = [
        {"type": "text", "text": "What is on it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}},
    ]
    history = [human("picture", picture), *talk(14)]
    async with new_thread(rig.gateway, history) as thread:
        assert (await thread.context())["tokens"]["messages"] < 6000
        await compacted_whole(thread, history)
        (call,) = rig.summary_calls()
        assert PIXELS[:200] not in call.text
        assert "What is on it?" in call.text
        assert "image" in call.text.partition("<new_messages>")[2]


async def test_an_image_that_stays_is_sent_to_the_model_as_it_was(rig: Rig) -> None:
    picture = [
        {"type": "text", "text": "What is on it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}},
    ]
    async with new_thread(rig.gateway, [*talk(14), human("picture", picture)]) as thread:
        await thread.compacted()
        await thread.client.runs.wait(thread.id, "agent", input={"messages": []})
        sent = rig.agent_calls()[0].messages[-1]["content"]
        assert sent[1]["image_url"]["url"].endswith(PIXELS)


async def test_a_system_message_in_the_middle_stays(rig: Rig) -> None:
    rule = {"type": "system", "id": "rule", "content": "From now on answer in French."}
    history = [*talk(8), rule, *talk(12, start=8)]
    async with new_thread(rig.gateway, history) as thread:
        live = await compacted_whole(thread, history)
        assert live[0]["id"] == "rule"
        assert rule["content"] not in rig.summary_calls()[0].text
        await thread.run()
        (request,) = rig.agent_calls()
        assert "From now on answer in French." in request.text


async def test_parallel_calls_with_a_message_between_stay_together(rig: Rig) -> None:
    odd = [calling("both", "c1", "c2"), result("c1"), human("between", "Hurry up!"), result("c2")]
    for tail in (2, 3, 4, 6):
        history = [*talk(14), *odd, *talk(tail // 2, start=50)]
        async with new_thread(rig.gateway, history) as thread:
            live = [message["id"] for message in await compacted_whole(thread, history)]
            assert len({"both", "r-c1", "r-c2"} & set(live)) in (0, 3)
            rig.mark()
            await thread.run()
            assert is_paired(rig.agent_calls()[0])


BROKEN = {
    "a result without its call": [result("lost"), *talk(1)],
    "a call without its result": [calling("asked", "open"), *talk(1)],
    "one of two calls answered": [calling("asked", "c1", "c2"), result("c2"), *talk(1)],
    "a result far from its call": [calling("asked", "c1"), *talk(1), result("c1"), *talk(1, start=1)],
    "the same id twice": [
        calling("one", "c1"),
        result("c1"),
        calling("two", "c1"),
        {**result("c1"), "id": "again"},
    ],
    "a call that was interrupted at the end": [*talk(1), calling("asked", "c1", "c2")],
    "calls that did not parse": [
        {**calling("asked"), "invalid_tool_calls": [{"name": "x", "args": "{", "id": "bad", "error": None}]},
        *talk(1),
    ],
}


@pytest.mark.parametrize("history", BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_history_is_sent_valid_and_stays_as_it_is(rig: Rig, history: list[Message]) -> None:
    async with new_thread(rig.gateway, history) as thread:
        before = await thread.messages()
        await thread.run("go")
        (request,) = rig.agent_calls()
        assert is_paired(request)
        # LangChain itself answers calls that did not parse, in the state too.
        after = [message for message in await thread.messages() if message.get("tool_call_id") != "bad"]
        assert after[: len(before)] == before
        assert [message["content"] for message in after[len(before) :]] == ["go", "ok"]


@pytest.mark.parametrize("history", BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_history_is_compacted_all_the_same(rig: Rig, history: list[Message]) -> None:
    whole = [*history, *[{**message, "id": f"late-{message['id']}"} for message in talk(20)]]
    async with new_thread(rig.gateway, whole) as thread:
        await compacted_whole(thread, whole)
        assert (await thread.values())["summary_text"] == SUMMARY
        rig.mark()
        await thread.run()
        assert is_paired(rig.agent_calls()[0])


async def test_results_and_errors_reach_the_summariser(rig: Rig) -> None:
    failed = {**result("c1", "No such file: plan.md"), "status": "error"}
    history = [
        human("q", "Read it."),
        calling("asked", "c1"),
        failed,
        *tool_round(1, 300, calls=2),
        *talk(16),
    ]
    async with new_thread(rig.gateway, history) as thread:
        await compacted_whole(thread, history)
        (call,) = rig.summary_calls()
        for part in ("No such file: plan.md", "list_files", "read_file", "call-1-0.txt", "error"):
            assert part in call.text

"""What the page shows of the context: the gauge, compactions by hand and automatic, markers, undo, search, pins."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from tests.web.conftest import Window

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARTS = ["System prompt", "Tools", "Summary", "Durable context", "Messages", "Total"]


def talk(turns: int, words: int = 60) -> list[dict[str, Any]]:
    """A conversation of so many turns; the first one names the harbour."""
    messages: list[dict[str, Any]] = []
    for number in range(turns):
        filler = " ".join(f"word{number}x{index}" for index in range(words))
        harbour = "The harbour is called Kvalvika. " if number == 0 else ""
        messages.append(
            {"type": "human", "id": f"q{number}", "content": f"{harbour}Question {number}: {filler}"}
        )
        messages.append({"type": "ai", "id": f"a{number}", "content": f"Answer {number}: {filler}"})
    return messages


async def thread_with(http: httpx.AsyncClient, messages: list[dict[str, Any]]) -> str:
    thread_id: str = (await http.post("/threads", json={})).json()["thread_id"]
    body = {"values": {"messages": messages}}
    answer = await http.post(f"/threads/{thread_id}/state", json=body)
    assert answer.status_code == 200, answer.text
    return thread_id


async def begin_compact(window: Window) -> None:
    await window.button("Compact", exact=True).click()
    await expect(window.page.get_by_role("dialog")).to_contain_text("messages would go")


async def test_the_gauge_shows_every_part_and_when_it_compacts(
    window: Window, http: httpx.AsyncClient
) -> None:
    thread_id = await thread_with(http, talk(6))
    await window.open(thread_id)
    context = (await http.get(f"/threads/{thread_id}/context")).json()
    gauge = window.page.locator(".gauge")
    await expect(gauge.locator(".gauge-text")).to_have_text(
        f"{context['tokens']['total'] / 1000:.1f}k of 6.0k"
    )
    await gauge.locator("summary").click()
    rows = gauge.locator("tr")
    assert [text.strip() for text in await rows.locator("th").all_inner_texts()] == PARTS
    shown = await rows.locator("td:nth-child(2)").all_inner_texts()
    tokens = context["tokens"]
    expected = [tokens[part] for part in ("system", "tools", "summary", "durable", "messages", "total")]
    assert [int(text.replace(",", "")) for text in shown] == expected
    await expect(gauge).to_contain_text("Compacts by itself at 6,000 tokens")


async def test_a_compaction_is_looked_at_written_changed_applied_and_taken_back(
    window: Window, http: httpx.AsyncClient
) -> None:
    messages = talk(8)
    thread_id = await thread_with(http, messages)
    await window.open(thread_id)
    await expect(window.messages("human")).to_have_count(8)
    await begin_compact(window)
    dialog = window.page.get_by_role("dialog")
    plan = (await http.post(f"/threads/{thread_id}/compact", json={"dry_run": "plan"})).json()
    await expect(dialog).to_contain_text(f"Goes into the summary ({len(plan['remove'])})")
    await expect(dialog).to_contain_text(f"Stays word for word ({len(plan['keep'])})")
    await dialog.get_by_label("What the summary should keep above all").fill("the name of the harbour")
    await dialog.get_by_role("button", name="Write a summary first").click()
    field = dialog.get_by_label("Summary", exact=True)
    await expect(field).to_be_visible()
    await field.fill("## Intent\nThey talk about **Kvalvika**.")
    await dialog.get_by_role("button", name="Apply").click()
    marker = window.page.locator(".marker")
    await expect(marker).to_contain_text(f"Compacted by hand · {len(plan['remove'])} messages")
    await expect(window.page.locator(".message.is-archived")).to_have_count(len(plan["remove"]))
    await expect(window.messages("human")).to_have_count(8)
    await marker.locator("summary").click()
    await expect(marker.get_by_role("heading", name="Intent")).to_be_visible()
    await expect(marker.locator("strong", has_text="Kvalvika")).to_be_visible()
    await expect(marker.locator(".beside li")).to_have_count(len(plan["remove"]))
    await expect(marker).to_contain_text("the name of the harbour")
    await marker.get_by_role("button", name="Undo").click()
    await expect(window.page.locator(".message.is-archived")).to_have_count(0)
    await expect(marker).to_contain_text("undone")
    state = (await http.get(f"/threads/{thread_id}/state")).json()
    assert [message["id"] for message in state["values"]["messages"]] == [m["id"] for m in messages]
    await window.page.locator(".toast").get_by_role("button", name="Redo").click()
    await expect(window.page.locator(".marker.is-committed")).to_have_count(1)


async def test_the_command_compacts_with_a_focus_and_a_cancelled_draft_is_gone(
    window: Window, http: httpx.AsyncClient
) -> None:
    thread_id = await thread_with(http, talk(8))
    await window.open(thread_id)
    await window.say("/compact the harbour", wait=False)
    dialog = window.page.get_by_role("dialog")
    await expect(dialog.get_by_label("What the summary should keep above all")).to_have_value("the harbour")
    async with window.page.expect_response(lambda r: r.request.method == "DELETE") as discarded:
        await dialog.get_by_role("button", name="Write a summary first").click()
        await expect(dialog.get_by_label("Summary", exact=True)).to_be_visible()
        await dialog.get_by_role("button", name="Cancel").click()
    assert (await discarded.value).status == 204
    records = (await http.get(f"/threads/{thread_id}/compactions")).json()["data"]
    assert [record["status"] for record in records if record["status"] == "draft"] == []
    assert len(await window.messages("human").all()) == 8


async def test_what_cannot_be_compacted_is_said_in_plain_words(window: Window) -> None:
    await window.say("Only this")
    await window.button("Compact", exact=True).click()
    await expect(window.page.get_by_role("dialog")).to_contain_text("not enough to compact yet")


async def test_a_run_that_compacts_by_itself_leaves_a_line_with_its_figures(window: Window) -> None:
    filler = "pebbles and waves and wind " * 60
    for number in range(9):
        await window.say(f"Part {number}: {filler}")
        if await window.page.locator(".marker").count():
            break
    marker = window.page.locator(".marker").last
    await expect(marker).to_contain_text("Compacted automatically")
    assert await window.page.locator(".message.is-archived").count() > 0
    await expect(window.page.locator(".bar .part-summary")).to_have_count(1)


async def test_archived_messages_are_found_and_shown_where_they_stood(
    window: Window, http: httpx.AsyncClient
) -> None:
    thread_id = await thread_with(http, talk(60))
    assert (await http.post(f"/threads/{thread_id}/compact", json={})).json()["compacted"]
    await window.open(thread_id)
    await expect(window.messages("human").last).to_be_visible()
    assert not await window.page.get_by_text("Kvalvika").count()
    await window.button("Search this thread").click()
    await window.page.get_by_role("dialog").get_by_role("searchbox").fill("Kvalvika")
    hit = window.page.locator(".hit")
    await expect(hit).to_have_count(1)
    await expect(hit).to_contain_text("archived")
    await hit.click()
    await expect(window.page.locator(".message.is-found")).to_contain_text("Kvalvika")
    await window.button("To the newest message").click()
    await expect(window.messages("ai").last).to_contain_text("Answer 59")


async def test_a_pinned_message_stays_when_the_others_go(window: Window, http: httpx.AsyncClient) -> None:
    thread_id = await thread_with(http, talk(8))
    await window.open(thread_id)
    first = window.messages("human").first
    await first.hover()
    await first.get_by_role("button", name="Pin: never compact this message").click()
    await expect(window.page.locator(".message.is-pinned")).to_have_count(1)
    await begin_compact(window)
    dialog = window.page.get_by_role("dialog")
    await expect(dialog.locator("li", has=window.page.locator(".why", has_text="pinned"))).to_contain_text(
        "Kvalvika"
    )
    await dialog.get_by_role("button", name="Compact now").click()
    await expect(window.page.locator(".marker")).to_have_count(1)
    assert "is-archived" not in (await first.get_attribute("class") or "")


async def test_all_compactions_of_a_thread_are_listed_and_can_be_taken_back(
    window: Window, http: httpx.AsyncClient
) -> None:
    thread_id = await thread_with(http, talk(8))
    assert (await http.post(f"/threads/{thread_id}/compact", json={})).json()["compacted"]
    await window.open(thread_id)
    await window.button("Compactions").click()
    row = window.page.locator(".compactions tbody tr")
    await expect(row).to_contain_text("in effect")
    await row.get_by_role("button", name="Undo").click()
    await expect(window.page.locator(".marker.is-undone")).to_have_count(1)
    await window.button("Compactions").click()
    await expect(window.page.locator(".compactions tbody tr").last).to_contain_text("undone")

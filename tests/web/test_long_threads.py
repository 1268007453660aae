"""Looking at the past of a long thread: nothing is missing or doubled, and what one looks at stays where it is."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.async_api import Route, expect

from tests.web.conftest import Window
from tests.web.test_context import talk, thread_with

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS = 250
HIDDEN = (299, 359)  # where pages end after a jump to message 150: what is hidden must not look like the end
SEQS = "[...document.querySelectorAll('.conversation > .message')].map((node) => Number(node.dataset.seq))"
NEXT_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


async def long_thread(http: httpx.AsyncClient) -> str:
    return await thread_with(http, talk(TURNS, words=8))


async def hide(window: Window) -> None:
    """Answers leave some messages out, as those that the service wrote for the model alone."""

    async def answer(route: Route) -> None:
        response = await route.fetch()
        page = await response.json()
        page["data"] = [entry for entry in page["data"] if entry["seq"] not in HIDDEN]
        await route.fulfill(response=response, json=page)

    await window.page.route("**/messages?*", answer)


async def jump(window: Window, words: str) -> None:
    await window.page.keyboard.press("Control+k")
    await window.page.get_by_role("dialog").get_by_role("searchbox").fill(words)
    await window.page.locator(".hit", has_text=words).first.click()
    await expect(window.page.locator(".message.is-found")).to_contain_text(words)


async def test_one_scrolls_from_the_far_past_to_the_end_without_gaps(
    window: Window, http: httpx.AsyncClient
) -> None:
    await hide(window)
    await window.open(await long_thread(http))
    await expect(window.messages("ai").last).to_contain_text(f"Answer {TURNS - 1}")
    await jump(window, "Answer 74")
    seen: set[int] = set()
    for _ in range(400):
        seqs = await window.page.evaluate(SEQS)
        assert seqs == sorted(set(seqs))
        seen |= set(seqs)
        if seqs[-1] == 2 * TURNS:
            break
        await window.page.locator("#scroller").evaluate("node => node.scrollBy(0, 3000)")
        await window.page.evaluate(NEXT_FRAMES)
    shown = set(range(min(seen), 2 * TURNS + 1)) - set(HIDDEN)
    assert seen == shown


async def test_pinning_in_the_far_past_leaves_the_eye_and_the_focus_there(
    window: Window, http: httpx.AsyncClient
) -> None:
    await window.open(await long_thread(http))
    await expect(window.messages("ai").last).to_contain_text(f"Answer {TURNS - 1}")
    await jump(window, "Answer 74")
    message = window.page.locator(".message.is-found")
    key = await message.get_attribute("data-key")
    kept = window.page.locator(f'.message[data-key="{key}"]')
    before = await kept.bounding_box()
    await kept.get_by_role("button", name="Pin").focus()
    await window.page.keyboard.press("Enter")
    unpin = kept.get_by_role("button", name="Unpin")
    await expect(unpin).to_be_focused()
    after = await kept.bounding_box()
    assert before and after and abs(before["y"] - after["y"]) < 3


async def test_what_is_said_while_one_looks_at_the_past_is_shown_at_the_end(
    window: Window, http: httpx.AsyncClient
) -> None:
    await window.open(await long_thread(http))
    await expect(window.messages("ai").last).to_contain_text(f"Answer {TURNS - 1}")
    await jump(window, "Answer 74")
    await window.say("/slow 30", wait=False)
    await expect(window.messages("human").last).to_have_text("/slow 30")
    # What was just said has no number before its run has begun, nor has the answer before that has ended.
    for kind in ("human", "ai"):
        await expect(window.messages(kind).last).to_have_attribute(
            "data-seq", re.compile(r"^[1-9]"), timeout=30_000
        )
    await window.settled()
    await expect(window.messages("human").last).to_have_text("/slow 30")
    seqs = await window.page.evaluate(SEQS)
    assert seqs == sorted(set(seqs))


async def test_the_end_of_a_run_does_not_move_who_reads_in_the_past(
    window: Window, http: httpx.AsyncClient
) -> None:
    await window.open(await long_thread(http))
    await expect(window.messages("ai").last).to_contain_text(f"Answer {TURNS - 1}")
    await window.say("/slow 60", wait=False)
    await expect(window.messages("human").last).to_have_text("/slow 60")
    await jump(window, "Answer 74")
    found = window.messages("ai").filter(has_text="Answer 74:")
    await window.page.evaluate(NEXT_FRAMES)
    before = await found.bounding_box()
    async with window.page.expect_response(lambda answer: "/context" in answer.url):
        await window.settled()
    await window.page.evaluate(NEXT_FRAMES)
    after = await found.bounding_box()
    assert before and after and abs(before["y"] - after["y"]) < 3

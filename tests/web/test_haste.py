"""Somebody who is quick, or in two places at once: nothing goes astray."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from playwright.async_api import Route, expect

from tests.web.conftest import Window
from tests.web.test_context import talk, thread_with

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_edit_does_not_go_along_to_another_thread(window: Window, http: httpx.AsyncClient) -> None:
    other = await thread_with(http, talk(1))
    await window.say("The first")
    message = window.messages("human").first
    await message.hover()
    await message.get_by_role("button", name="Edit in a branch").click()
    await window.open(other)
    await expect(window.messages("human").first).to_contain_text("Kvalvika")
    await expect(window.page.locator(".editing")).to_be_hidden()
    await expect(window.field).to_have_value("")
    await window.say("And here?")
    assert len(await window.texts("human")) == 2


async def test_who_leaves_right_after_sending_takes_nothing_along(
    window: Window, http: httpx.AsyncClient
) -> None:
    first, other = await thread_with(http, talk(1)), await thread_with(http, talk(1))
    await window.open(first)
    await expect(window.messages("ai")).to_have_count(1)
    sent, released = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        sent.set()
        await released.wait()
        await route.continue_()

    await window.page.route("**/runs/stream", hold, times=1)
    await window.say("Only for the first", wait=False)
    await sent.wait()
    await window.open(other)
    await expect(window.messages("ai")).to_have_count(1)
    released.set()
    await expect(window.button("Send")).to_be_visible()
    assert len(await window.texts("human")) == 1
    await expect(window.field).to_have_value("")
    await expect(window.page.locator(".toast")).to_have_count(0)


async def test_a_branch_that_is_refused_cuts_nothing_off(window: Window, http: httpx.AsyncClient) -> None:
    window.expected.append("409")
    await window.say("One")
    await window.say("Two")
    refusal = {"code": "thread_busy", "detail": "busy"}
    await window.page.route("**/runs/stream", lambda route: route.fulfill(status=409, json=refusal), times=1)
    message = window.messages("human").first
    await message.hover()
    await message.get_by_role("button", name="Ask again").click()
    await expect(window.page.locator(".toast")).to_contain_text("at work on this thread")
    await expect(window.messages("human")).to_have_text(["One", "Two"])
    await expect(window.page.locator(".editing")).to_be_visible()
    await expect(window.field).to_have_value("One")


async def test_keys_of_an_input_method_neither_send_nor_stop(window: Window) -> None:
    await window.say("/slow 60", wait=False)
    await expect(window.messages("ai")).to_have_count(1)
    cancelled: list[str] = []
    window.page.on("request", lambda asked: cancelled.append(asked.url) if "/cancel" in asked.url else None)
    await window.field.dispatch_event("keydown", {"key": "Escape", "isComposing": True, "bubbles": True})
    await window.settled()
    assert cancelled == []
    await window.field.fill("港")
    await window.field.dispatch_event("keydown", {"key": "Enter", "keyCode": 229, "bubbles": True})
    await expect(window.field).to_have_value("港")


async def test_two_clicks_on_an_example_begin_one_thread(window: Window) -> None:
    await window.page.locator(".choice").first.dblclick()
    await window.settled()
    assert len(await window.texts("human")) == 1


async def test_a_thread_deleted_elsewhere_is_left_with_a_word(
    window: Window, http: httpx.AsyncClient
) -> None:
    window.expected.append("404")
    await window.say("Soon gone")
    await http.delete(f"/threads/{window.thread_id}")
    await expect(window.page.locator(".toast")).to_contain_text("does not exist any more")
    await expect(window.page.locator(".welcome")).to_be_visible()


async def test_a_list_that_cannot_be_read_on_is_asked_for_once(
    window: Window, http: httpx.AsyncClient
) -> None:
    window.expected.append("503")
    await asyncio.gather(*(http.post("/threads", json={}) for _ in range(41)))
    await window.page.reload()
    await expect(window.button("Show more")).to_be_visible()
    asked: list[str] = []

    async def refuse(route: Route) -> None:
        asked.append(route.request.url)
        await route.fulfill(status=503, json={"code": "database_error", "detail": "away"})

    await window.page.route("**/threads/search", refuse)
    await window.page.get_by_label("Search threads").fill("nothing like that")
    await expect(window.page.locator(".toast").first).to_be_visible()
    await window.page.get_by_label("Search threads").fill("")
    await expect(window.page.locator(".threads a").first).to_be_visible()
    assert len(asked) == 1


async def test_a_second_ctrl_k_opens_no_second_search(window: Window) -> None:
    await window.say("Search here")
    await window.page.keyboard.press("Control+k")
    await window.page.keyboard.press("Control+k")
    await expect(window.page.get_by_role("dialog")).to_have_count(1)


async def test_the_drawer_gives_the_focus_back(window: Window) -> None:
    await window.page.set_viewport_size({"width": 390, "height": 800})
    await window.button("Threads").click()
    await expect(window.page.get_by_label("Search threads")).to_be_focused()
    await window.page.keyboard.press("Escape")
    await expect(window.button("Threads")).to_be_focused()

"""Talking on the page: threads, streaming, tools, questions, branches, reloads."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from playwright.async_api import Browser, expect

from tests.support.gateway import Gateway
from tests.web.conftest import Window, window_on

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_newcomer_asks_and_is_answered_under_an_address_of_its_own(window: Window) -> None:
    await window.say("Where is the harbour?")
    assert await window.texts("human") == ["Where is the harbour?"]
    assert "no language model is behind this answer" in (await window.texts("ai"))[0]
    assert re.search(r"#/threads/[0-9a-f-]{36}$", window.page.url)
    await expect(window.page.locator(".threads li.is-current .title")).to_have_text("Where is the harbour?")
    await expect(window.page.locator(".head .title")).to_have_text("Where is the harbour?")
    await expect(window.page).to_have_title("Where is the harbour? · Threadkeep")


async def test_threads_are_found_renamed_and_deleted(window: Window) -> None:
    await window.say("A talk about lighthouses")
    await window.button("New thread").click()
    await window.say("A talk about ferries")
    await window.page.get_by_label("Search threads").fill("lighthouse")
    titles = window.page.locator(".threads .title")
    await expect(titles).to_have_text(["A talk about lighthouses"])
    await titles.first.hover()
    await window.button("Rename").click()
    await window.page.get_by_role("textbox", name="Rename thread").fill("Lighthouses of the north")
    await window.page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    await window.page.get_by_label("Search threads").fill("north")
    await expect(titles).to_have_text(["Lighthouses of the north"])
    await titles.first.hover()
    await window.button("Delete").click()
    await window.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(titles).to_have_count(0)
    await expect(window.page.locator(".head .title")).to_have_text("A talk about ferries")


async def test_a_tool_call_is_folded_with_its_arguments_and_its_result(window: Window) -> None:
    await window.say('/tool write_file {"path": "notes.md", "content": "ebb and flow"}')
    call = window.page.locator(".fold.call")
    await expect(call.locator(".name")).to_have_text("write_file")
    await call.locator("summary").click()
    await expect(call.locator("pre").first).to_contain_text("ebb and flow")
    await expect(call.locator("pre").last).to_contain_text("notes.md")
    assert len(await window.texts("ai")) == 2


async def test_the_plan_is_shown_above_the_composer(window: Window) -> None:
    todos = [{"content": "Measure", "status": "completed"}, {"content": "Build", "status": "in_progress"}]
    await window.say(f"/tool write_todos {json.dumps({'todos': todos})}")
    await expect(window.page.locator(".todos summary")).to_contain_text("1 of 2 done · Build")
    await window.page.reload()
    await expect(window.page.locator(".todos summary")).to_contain_text("1 of 2 done · Build")


async def test_a_subagent_works_inside_its_call(window: Window) -> None:
    task = {"description": "Count the boats", "prompt": "count all boats", "subagent_type": "general-purpose"}
    await window.say(f"/tool task {json.dumps(task)}")
    call = window.page.locator(".fold.call")
    await expect(call.locator(".gist").first).to_have_text("Count the boats")
    await call.locator("summary").first.click()
    await expect(call.locator(".nested")).to_contain_text("count all boats")


async def test_a_question_is_answered_where_it_stands_also_after_a_reload(window: Window) -> None:
    ask = {"question": "Which harbour?", "options": ["North", "South"]}
    await window.say(f"/tool ask_clarification {json.dumps(ask)}")
    await expect(window.page.locator(".question")).to_contain_text("Which harbour?")
    dot = window.page.locator(".fold.call .dot")
    await expect(dot).to_have_attribute("title", "waiting for you")
    await window.page.reload()
    await expect(dot).to_have_class("dot waiting")
    await window.button("South").click()
    await window.settled()
    await expect(window.page.locator(".question")).to_have_count(0)
    await expect(dot).to_have_class("dot done")
    await window.page.locator(".fold.call summary").click()
    await expect(window.page.locator(".fold.call pre").last).to_have_text("South")


async def test_an_edited_message_begins_a_branch_and_asking_again_another(window: Window) -> None:
    await window.say("First question")
    await window.say("Second question")
    second = window.messages("human").nth(1)
    await second.hover()
    await second.get_by_role("button", name="Edit in a branch").click()
    await expect(window.field).to_have_value("Second question")
    await window.say("Another second question")
    assert await window.texts("human") == ["First question", "Another second question"]
    first = window.messages("human").first
    await first.hover()
    await first.get_by_role("button", name="Ask again").click()
    await expect(window.messages("human")).to_have_count(1)
    await window.settled()
    assert await window.texts("human") == ["First question"]
    assert len(await window.texts("ai")) == 1


async def test_a_reload_in_mid_stream_joins_the_run_without_loss_or_doubling(window: Window) -> None:
    await window.say("/slow 60", wait=False)
    await expect(window.messages("ai")).to_have_count(1)
    await window.page.reload()
    await expect(window.button("Stop")).to_be_visible()
    await window.settled()
    assert await window.texts("human") == ["/slow 60"]
    said = await window.texts("ai")
    assert len(said) == 1
    async with httpx.AsyncClient(base_url=f"{window.url}/api") as api:
        state = (await api.get(f"/threads/{window.thread_id}/state")).json()
    assert said[0].split() == state["values"]["messages"][-1]["content"].split()


async def test_a_run_is_stopped(window: Window) -> None:
    await window.say("/slow 1500", wait=False)
    await expect(window.messages("ai")).to_have_count(1)
    await window.button("Stop").click()
    await window.settled()
    await expect(window.messages("ai")).to_contain_text("The agent does not remember this part")
    await window.say("And now?")
    assert await window.texts("human") == ["/slow 1500", "And now?"]


async def test_two_windows_on_one_thread_show_the_same(
    browser: Browser, service: Gateway, window: Window
) -> None:
    await window.say("Said in the first window")
    async with window_on(browser, service.url) as other:
        await other.open(window.thread_id)
        await expect(other.messages("ai")).to_have_count(1)
        await other.say("Said in the second window")
        await expect(window.messages("human")).to_have_count(2)
        await window.settled()
        await expect(window.messages("ai")).to_have_count(2)
        assert await window.texts("ai") == await other.texts("ai")


async def test_an_address_of_a_thread_that_is_gone_says_so(window: Window) -> None:
    window.expected.append("404")
    await window.open("00000000-0000-4000-8000-000000000000")
    await expect(window.page.locator(".toast")).to_contain_text("does not exist")
    await expect(window.page.locator(".welcome")).to_be_visible()

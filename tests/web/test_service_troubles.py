"""A service that dies, providers that fail, a key that is asked for: said where it happens, with what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.support.answers import Answer, Fail, Hang, Reply
from tests.support.gateway import serving
from tests.support.postgres import clone
from tests.support.provider import Provider, running_provider
from tests.support.service import config, running
from tests.support.threads import is_summary_call, stand_in
from tests.web.conftest import SUMMARIZATION, window_on
from tests.web.test_context import begin_compact, talk, thread_with

pytestmark = pytest.mark.asyncio(loop_scope="module")
UNREACHABLE = ("Failed to load resource", "net::ERR")


@pytest_asyncio.fixture(loop_scope="module")
async def database(database_template: str) -> AsyncIterator[str]:
    async with clone(database_template) as url:
        yield url


@pytest.fixture
def stand() -> Any:
    with running_provider() as provider:
        yield provider


async def test_a_killed_service_is_said_to_be_away_and_the_answer_comes_whole_when_it_is_back(
    browser: Browser, tmp_path: Path, database: str
) -> None:
    settings = config(summarization=SUMMARIZATION)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running(tmp_path, settings, database_url=database))
        window = await stack.enter_async_context(window_on(browser, first.url))
        window.expected += UNREACHABLE
        await window.open()
        await window.say("/slow 80", wait=False)
        await expect(window.messages("ai")).to_have_count(1)
        first.kill()
        await expect(window.page.locator("#connection")).to_contain_text("connection to the service is lost")
        port = first.url.rsplit(":", 1)[1]
        second = await stack.enter_async_context(
            running(tmp_path, settings, "--port", port, database_url=database)
        )
        await expect(window.page.locator("#connection")).to_be_hidden()
        await window.settled()
        assert await window.texts("human") == ["/slow 80"]
        said = await window.texts("ai")
        async with httpx.AsyncClient(base_url=second.api) as http:
            state = (await http.get(f"/threads/{window.thread_id}/state")).json()
        assert [text.split() for text in said] == [state["values"]["messages"][-1]["content"].split()]


async def test_a_provider_that_fails_is_said_in_the_dialog_and_in_the_conversation(
    browser: Browser, tmp_path: Path, database: str, stand: Provider
) -> None:
    sections = {
        "models": [stand_in("main", stand)],
        "summarization": {**SUMMARIZATION, "summary_timeout_s": 1},
        "title": {"enabled": False},
    }
    async with (
        serving(tmp_path, database, sections) as service,
        service.http() as http,
        window_on(browser, service.url) as window,
    ):
        window.expected += ("502", "504")
        thread_id = await thread_with(http, talk(8))
        summaries: list[Answer] = [Fail(401, {"error": {"message": "no such key"}})]
        answers: list[Answer] = [Fail(400, {"error": {"message": "the model is on holiday"}})]
        stand.when(is_summary_call, lambda _: summaries[-1])
        stand.when(lambda _: True, lambda _: answers[-1])
        await window.open(thread_id)
        await begin_compact(window)
        dialog = window.page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Compact now").click()
        await expect(dialog.get_by_role("alert")).to_contain_text(
            "No model could write a summary; nothing was changed"
        )
        summaries.append(Hang())
        await dialog.get_by_role("button", name="Compact now").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("took too long")
        await window.page.keyboard.press("Escape")
        await window.say("Are you there?")
        failure = window.page.locator(".conversation > .failure")
        await expect(failure).to_contain_text("the model is on holiday")
        answers.append(Reply("I am back."))
        await failure.get_by_role("button", name="Go on").click()
        await window.settled()
        await expect(window.messages("ai").last).to_contain_text("I am back.")
        await expect(failure).to_have_count(0)


async def test_a_busy_thread_cannot_be_compacted_and_the_page_says_why(
    browser: Browser, tmp_path: Path, database: str
) -> None:
    async with (
        serving(tmp_path, database, {"summarization": SUMMARIZATION}) as service,
        service.http() as http,
        window_on(browser, service.url) as window,
    ):
        window.expected.append("409")
        thread_id = await thread_with(http, talk(8))
        await window.open(thread_id)
        await begin_compact(window)
        body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "/slow 400"}]}}
        run = (
            await http.post(f"/threads/{thread_id}/runs", json={**body, "stream_mode": "messages-tuple"})
        ).json()
        dialog = window.page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Compact now").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("The agent is at work on this thread")
        await http.post(f"/threads/{thread_id}/runs/{run['run_id']}/cancel", params={"wait": "1"})


async def test_a_service_with_accounts_asks_for_the_key(
    browser: Browser, tmp_path: Path, database: str
) -> None:
    async with serving(tmp_path, database, {"auth": {"type": "api_key"}}) as service:
        key, _ = await service.core.services.keys.create("ann")
        async with window_on(browser, service.url) as window:
            window.expected.append("401")
            await window.open()
            dialog = window.page.get_by_role("dialog")
            await dialog.get_by_label("API key", exact=True).fill(key)
            await dialog.get_by_role("button", name="Save").click()
            await expect(window.page.locator("select[aria-label=Model] option")).to_have_count(2)
            await window.say("Let me in")
            assert await window.texts("human") == ["Let me in"]
            await window.page.reload()
            await expect(window.messages("human")).to_have_text("Let me in")


async def test_memory_is_seen_changed_and_deleted_and_skills_are_listed(
    browser: Browser, tmp_path: Path, database: str
) -> None:
    async with (
        serving(tmp_path, database, {"memory": {"enabled": True}}) as service,
        service.http() as http,
        window_on(browser, service.url) as window,
    ):
        assert (await http.put("/memory/town", json={"text": "Lives in Tromsø"})).status_code == 200
        await window.open()
        await window.button("Memory").click()
        fact = window.page.get_by_role("textbox", name="Fact")
        await expect(fact).to_have_value("Lives in Tromsø")
        await fact.fill("Lives in Bodø")
        async with window.page.expect_response("**/memory/town"):
            await window.button("Save").click()
        assert (await http.get("/memory/town")).json()["text"] == "Lives in Bodø"
        await window.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(window.page.get_by_role("dialog")).to_contain_text("Nothing is noted")
        await window.page.keyboard.press("Escape")
        await window.button("Skills").click()
        await expect(window.page.get_by_role("dialog")).to_be_visible()


async def test_the_page_speaks_chinese_and_remembers_the_light(
    browser: Browser, tmp_path: Path, database: str
) -> None:
    async with (
        serving(tmp_path, database) as service,
        window_on(browser, service.url, locale="zh-CN") as window,
    ):
        await window.open()
        await expect(window.button("新对话")).to_be_visible()
        assert await window.page.evaluate("document.documentElement.lang") == "zh-CN"
        await window.button("浅色或深色").click()
        assert await window.page.evaluate("document.documentElement.dataset.theme") == "dark"
        await window.button("English").click()
        await expect(window.button("New thread")).to_be_visible()
        assert await window.page.evaluate("document.documentElement.dataset.theme") == "dark"


async def test_the_page_is_used_by_keyboard_on_a_narrow_screen(
    browser: Browser, tmp_path: Path, database: str
) -> None:
    size = {"width": 360, "height": 700}
    async with (
        serving(tmp_path, database) as service,
        window_on(browser, service.url, viewport=size) as window,
    ):
        await window.open()
        await expect(window.field).to_be_focused()
        await window.page.keyboard.type("Typed by keyboard")
        await window.page.keyboard.press("Enter")
        await window.settled()
        assert await window.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        await expect(window.page.locator("#sidebar")).not_to_be_in_viewport()
        await window.button("Threads").focus()
        await window.page.keyboard.press("Enter")
        await expect(window.page.get_by_label("Search threads")).to_be_focused()
        await window.page.keyboard.press("Escape")
        await expect(window.page.locator("#sidebar")).not_to_be_in_viewport()

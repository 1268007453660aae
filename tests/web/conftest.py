"""A real browser on the page of a real service. One browser for a module; each test has a window of its own."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 20_000
# Small enough to be compacted in a test, large enough for a conversation before.
SUMMARIZATION = {
    "trigger": {"type": "tokens", "value": 6000},
    "keep": {"type": "messages", "value": 4},
    "min_gain_fraction": 0.02,
}

expect.set_options(timeout=PATIENCE_MS)


def browser_path() -> str:
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium on this machine: the page is NOT tested (Debian: apt install chromium)")


@dataclass
class Window:
    """A window on the page, and what a person does in it. ``complaints`` are the browser's: none may be there."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    async def open(self, thread_id: str | None = None) -> None:
        await self.page.goto(f"{self.url}/" + (f"#/threads/{thread_id}" if thread_id else ""))

    @property
    def field(self) -> Locator:
        return self.page.locator("#composer-text")

    async def say(self, text: str, *, wait: bool = True) -> None:
        """Send a message, and wait until it is answered."""
        await self.field.fill(text)
        await self.field.press("Enter")
        if wait:
            await self.settled()

    async def settled(self) -> None:
        """No run is under way, and the newest page of messages has been read."""
        await expect(self.page.locator(".send[type=submit]")).to_be_visible()
        await expect(self.page.locator(".conversation .working")).to_have_count(0)

    def messages(self, kind: str) -> Locator:
        return self.page.locator(f".conversation > .message.is-{kind}")

    async def texts(self, kind: str) -> list[str]:
        return [text.strip() for text in await self.messages(kind).locator("> .text").all_inner_texts()]

    @property
    def thread_id(self) -> str:
        return self.page.url.rsplit("/", 1)[1]

    def button(self, name: str, **options: Any) -> Locator:
        return self.page.get_by_role("button", name=name, **options)

    def checked(self) -> list[str]:
        return [text for text in self.complaints if not any(one in text for one in self.expected)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield launched
        await launched.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Gateway]:
    """The service with the demo model, for the tests of a module that leave each other's threads alone."""
    folder: Path = tmp_path_factory.mktemp("page")
    sections = {"summarization": SUMMARIZATION, "title": {"enabled": True}}
    async with clone(database_template) as url, serving(folder, url, sections) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(service: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with service.http() as opened:
        yield opened


@asynccontextmanager
async def window_on(browser: Browser, url: str, **options: Any) -> AsyncIterator[Window]:
    """A window of its own. At the end the browser must have nothing to complain of: no error, nothing that the page's
    policy forbids."""
    context: BrowserContext = await browser.new_context(**{"locale": "en-US", **options})
    try:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        window = Window(page, url)
        page.on("pageerror", lambda error: window.complaints.append(f"{error}"))
        page.on(
            "console",
            lambda said: window.complaints.append(said.text) if said.type in ("error", "warning") else None,
        )
        yield window
        assert window.checked() == []
    finally:
        await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def window(browser: Browser, service: Gateway) -> AsyncIterator[Window]:
    async with window_on(browser, service.url) as opened:
        await opened.open()
        yield opened

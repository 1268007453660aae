"""What messages hold cannot harm who reads them, and large ones cannot stop the page."""

from __future__ import annotations

import httpx
import pytest
from playwright.async_api import Request, expect

from tests.support.gateway import Gateway
from tests.web.conftest import Window
from tests.web.test_context import talk, thread_with

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = """\
# Heading

<script>window.harmed = true</script>
<img src=x onerror="window.harmed = true">
[a link](javascript:window.harmed=true) and [data](data:text/html,<script>window.harmed=true</script>)
![tracker](https://tracker.invalid/pixel.png)
<svg onload="window.harmed = true"></svg><iframe src="https://tracker.invalid"></iframe>
`code <b>` **bold** [good](https://example.org/page)

| a | b |
|---|---|
| 1 | <style>body{display:none}</style> |
"""


async def test_a_message_can_run_nothing_and_load_nothing(window: Window, http: httpx.AsyncClient) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    window.page.on("request", note)
    tool_calls = [{"id": "c1", "name": "<b>read</b>", "args": {"path": EVIL}}]
    thread_id = await thread_with(
        http,
        [
            {"type": "human", "content": EVIL},
            {"type": "ai", "content": EVIL, "tool_calls": tool_calls},
            {"type": "tool", "tool_call_id": "c1", "content": EVIL},
            {
                "type": "ai",
                "content": [{"type": "image_url", "image_url": {"url": "https://tracker.invalid/x.png"}}],
            },
        ],
    )
    answer = await http.patch(f"/threads/{thread_id}", json={"metadata": {"title": EVIL}})
    assert answer.status_code == 200
    await window.open(thread_id)
    said = window.messages("ai").first
    await expect(said.get_by_role("heading", name="Heading")).to_be_visible()
    for fold in await window.page.locator(".fold > summary").all():
        await fold.click()
    await expect(said.locator("strong")).to_have_text("bold")
    links = said.locator(".markdown a")
    assert [await link.get_attribute("href") for link in await links.all()] == [
        "https://tracker.invalid/pixel.png",
        "https://example.org/page",
    ]
    assert await links.first.get_attribute("rel") == "noopener noreferrer nofollow"
    assert (
        await window.page.locator("#conversation :is(script, iframe, style, svg[onload], img)").count() == 0
    )
    assert await window.page.evaluate("window.harmed") is None
    assert [url for url in asked if not url.startswith(window.url)] == []


async def test_an_image_inside_a_message_is_shown(window: Window, http: httpx.AsyncClient) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    content = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}},
    ]
    thread_id = await thread_with(http, [{"type": "human", "content": content}])
    await window.open(thread_id)
    image = window.messages("human").locator("img")
    await expect(image).to_be_visible()
    assert await image.evaluate("image => image.naturalWidth") == 1


async def test_the_page_forbids_what_it_does_not_need(service: Gateway) -> None:
    async with httpx.AsyncClient(base_url=service.url) as plain:
        page = await plain.get("/")
        script = await plain.get("/web/js/main.js")
        outside = await plain.get("/web/%2e%2e/main.py")
        api = await plain.get("/api/models")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert script.headers["content-security-policy"] == policy
    assert script.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in page.text and " style=" not in page.text and " onclick" not in page.text
    assert "https://" not in page.text and "http://" not in page.text
    assert (outside.status_code, api.status_code) == (404, 200)


async def test_a_line_of_200_kilobytes_is_folded(window: Window, http: httpx.AsyncClient) -> None:
    line = "x" * 200_000
    thread_id = await thread_with(
        http, [{"type": "human", "content": line}, {"type": "ai", "content": f"{line}\nbye"}]
    )
    await window.open(thread_id)
    asked = window.messages("human")
    await expect(asked.get_by_role("button", name="Show all 200,000 characters")).to_be_visible()
    await asked.get_by_role("button", name="Show all 200,000 characters").click()
    await expect(asked.locator(".text")).to_have_text(line)
    assert await window.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_a_thread_of_ten_thousand_messages_is_read_at_once_and_scrolls_smoothly(
    window: Window, http: httpx.AsyncClient
) -> None:
    thread_id = await thread_with(http, talk(5000, words=12))
    await window.page.evaluate(
        """() => {
            window.longTasks = [];
            new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((e) => e.duration)))
                .observe({ type: "longtask" });
        }"""
    )
    await window.open(thread_id)
    await expect(window.messages("ai").last).to_contain_text("Answer 4999")
    await window.page.locator("#scroller").hover()
    seen = set()
    for _ in range(25):
        await window.page.mouse.wheel(0, -2500)
        await window.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        seen.add(await window.page.locator(".message").first.get_attribute("data-seq"))
    assert len(seen) > 1
    assert await window.page.locator(".message").count() <= 400
    slow = await window.page.evaluate("window.longTasks")
    # What a person notices; the figures themselves are the bench's and depend on who else uses the machine.
    assert max(slow, default=0) < 400


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_there_are_no_serious_findings_of_accessibility(
    window: Window, http: httpx.AsyncClient, theme: str, width: int
) -> None:
    await window.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    await window.page.set_viewport_size({"width": width, "height": 800})
    thread_id = await thread_with(http, talk(8))
    assert (await http.post(f"/threads/{thread_id}/compact", json={})).json()["compacted"]
    await window.open(thread_id)
    await expect(window.page.locator(".marker")).to_have_count(1)
    await serious_findings(window, "conversation")
    await window.page.locator(".marker summary").click()
    await expect(window.page.locator(".marker .beside li").first).to_be_visible()
    await window.page.locator(".gauge summary").click()
    await serious_findings(window, "marker and gauge opened")
    await window.page.keyboard.press("Escape")
    await window.say("/compact", wait=False)
    await expect(window.page.get_by_role("dialog")).to_be_visible()
    await serious_findings(window, "dialog")


async def serious_findings(window: Window, where: str) -> None:
    from axe_playwright_python.async_playwright import Axe  # noqa: PLC0415 - reads its script when imported

    results = await Axe().run(window.page)
    found = [
        (one["id"], [node["target"] for node in one["nodes"]][:4])
        for one in results.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert found == [], where

"""Pictures of the main states, for people to look at. They are kept where ``THREADKEEP_SCREENSHOTS`` says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, expect

from tests.support.gateway import Gateway
from tests.web.conftest import Window, window_on
from tests.web.test_context import begin_compact, thread_with

pytestmark = pytest.mark.asyncio(loop_scope="module")
SIZE = {"width": 1280, "height": 800}
SMALLEST = 10_000  # bytes: an empty page is smaller

NOTES = """\
The parser now accepts **nested groups**. Three files changed:

| File | Change |
|---|---|
| `src/parser.py` | recursive descent instead of a regular expression |
| `src/tokens.py` | `GROUP_OPEN`, `GROUP_CLOSE` |
| `tests/test_parser.py` | 14 cases, one per rule |

```python
def group(tokens: Tokens) -> Group:
    tokens.expect(GROUP_OPEN)
    return Group(tuple(until(tokens, GROUP_CLOSE)))
```

Next: error messages that name the line."""


def work() -> list[dict[str, object]]:
    """A conversation about a parser, long enough to be worth compacting."""
    messages: list[dict[str, object]] = []
    for number, subject in enumerate(("tokens", "groups", "errors", "recovery", "speed", "docs")):
        asked = f"Please look at the {subject} of the parser and write down what has to change. " * 3
        found = f"I read the part about {subject}: it is used by 4 callers, 2 of them outside of src/. " * 9
        messages += [
            {"type": "human", "id": f"q{number}", "content": asked},
            {
                "type": "ai",
                "id": f"a{number}",
                "content": f"I will read `{subject}.py`.",
                "tool_calls": [
                    {"id": f"c{number}", "name": "read_file", "args": {"path": f"src/{subject}.py"}}
                ],
            },
            {
                "type": "tool",
                "id": f"t{number}",
                "tool_call_id": f"c{number}",
                "name": "read_file",
                "content": found,
            },
            {"type": "ai", "id": f"b{number}", "content": NOTES if subject == "docs" else found},
        ]
    return messages


async def picture(window: Window, folder: Path, name: str) -> None:
    path = folder / f"{name}.png"
    await window.page.screenshot(path=path)
    assert path.stat().st_size > SMALLEST


@pytest.mark.parametrize(("locale", "theme"), [("en-US", "light"), ("zh-CN", "dark")])
async def test_the_main_states(
    browser: Browser, service: Gateway, http: httpx.AsyncClient, tmp_path: Path, locale: str, theme: str
) -> None:
    folder = Path(os.environ.get("THREADKEEP_SCREENSHOTS") or tmp_path) / f"{locale[:2]}-{theme}"
    folder.mkdir(parents=True, exist_ok=True)
    options = {"locale": locale, "color_scheme": theme, "viewport": SIZE, "reduced_motion": "reduce"}
    thread_id = await thread_with(http, work())
    await http.patch(f"/threads/{thread_id}", json={"metadata": {"title": "Nested groups in the parser"}})
    async with window_on(browser, service.url, **options) as window:
        await window.open()
        await expect(window.page.locator(".welcome")).to_be_visible()
        await picture(window, folder, "welcome")
        await window.open(thread_id)
        await expect(window.messages("ai").last.locator("table")).to_be_visible()
        await window.page.locator(".fold.call summary").last.click()
        await picture(window, folder, "conversation")
        await window.page.locator(".gauge summary").click()
        await picture(window, folder, "gauge")
        await window.page.keyboard.press("Escape")
        if locale == "en-US":
            await compacting(window, folder)
        ask = {"question": "Which error format do you want?", "options": ["One line", "With an excerpt"]}
        await window.say(f"/tool ask_clarification {json.dumps(ask)}")
        await expect(window.page.locator(".question")).to_be_in_viewport()
        await picture(window, folder, "question")
    async with window_on(
        browser, service.url, **{**options, "viewport": {"width": 390, "height": 800}}
    ) as phone:
        await phone.open(thread_id)
        await expect(phone.messages("ai").last).to_be_visible()
        await picture(phone, folder, "narrow")


async def compacting(window: Window, folder: Path) -> None:
    await begin_compact(window)
    await picture(window, folder, "preview")
    dialog = window.page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Write a summary first").click()
    await expect(dialog.get_by_label("Summary", exact=True)).to_be_visible()
    await picture(window, folder, "draft")
    await dialog.get_by_role("button", name="Apply").click()
    await window.page.locator(".marker summary").click()
    await expect(window.page.locator(".marker .beside li").first).to_be_visible()
    await window.page.locator(".toast").get_by_role("button", name="Close").click()
    await window.page.locator(".marker").scroll_into_view_if_needed()
    await picture(window, folder, "compaction")

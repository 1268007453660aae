"""The page about graphs of one's own does what it says: its examples are pasted and run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.answers import Reply
from tests.support.gateway import serving
from tests.support.provider import Provider
from tests.support.threads import SUMMARY, is_summary_call, stand_in, talk

PAGE = (Path(__file__).parents[1] / "docs" / "graphs.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


async def test_the_first_example_answers_as_the_page_says(tmp_path: Path, database_url: str) -> None:
    graph, client_code, *_ = blocks("python")
    (tmp_path / "garden.py").write_text(graph)
    async with serving(tmp_path, database_url, yaml.safe_load(blocks("yaml")[0])) as gateway:
        values = await _run(client_code.replace("http://127.0.0.1:8000", gateway.url))
    assert f"`{values['messages'][-1]['content']}`" in PAGE


async def _run(code: str) -> Any:
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    names: dict[str, Any] = {}
    exec(
        f"async def example():\n{lines}    await client.aclose()\n    return values\n", names
    )  # the page's own code
    return await names["example"]()


@pytest.mark.parametrize("target", ["agent", "builder"])
async def test_the_examples_that_compact_by_themselves_do(
    tmp_path: Path, database_url: str, provider: Provider, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    code = next(
        block
        for block in blocks("python")
        if f"compaction_{'middleware' if target == 'agent' else 'node'}" in block
    )
    (tmp_path / f"docs_{target}.py").write_text(code)
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stand-in-0123456789")
    provider.when(is_summary_call, Reply(SUMMARY))
    sections = {
        "models": [stand_in("main", provider)],
        "graphs": {"mine": f"./docs_{target}.py:{target}"},
        "summarization": {
            "trigger": {"type": "messages", "value": 20},
            "keep": {"type": "messages", "value": 4},
        },
    }
    async with serving(tmp_path, database_url, sections) as gateway, gateway.client() as client:
        thread = (await client.threads.create(metadata={"graph_id": "mine"}))["thread_id"]
        await client.threads.update_state(thread, {"messages": talk(15)})
        await client.runs.wait(thread, "mine", input={"messages": [{"role": "user", "content": "Go on."}]})
        state: Any = await client.threads.get_state(thread)
    assert len(state["values"]["messages"]) < 10
    assert "forty beds" in provider.chats[-1].text

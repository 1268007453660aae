"""A service whose LangChain traces its runs to LangSmith, which nobody answers for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.support.service import config, running

NOBODY = {
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_ENDPOINT": "http://127.0.0.1:9",
    "LANGSMITH_API_KEY": "unused",
}


async def test_traces_that_nobody_takes_hold_up_neither_runs_nor_the_stop(
    tmp_path: Path, database_url: str
) -> None:
    async with running(tmp_path, config(), environ=NOBODY, database_url=database_url) as service:
        client = service.client()
        given = {"messages": [{"role": "user", "content": "Hello"}]}
        async with asyncio.timeout(15):
            for _ in range(2):
                thread = await client.threads.create()
                await client.runs.wait(thread["thread_id"], "agent", input=given)
                assert (await client.threads.get(thread["thread_id"]))["status"] == "idle"
        await client.aclose()
        begun = time.monotonic()
        assert await service.stop() == 0
    # LangSmith's own client goes on for a minute.
    assert time.monotonic() - begun < 15

"""Real conversations, compacted again and again, where they are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from app.compaction.partition import partition
from app.compaction.repair import valid_request
from app.compaction.tokens import TokenCounter
from app.compaction.verify import verify
from tests.compaction.build import resolved

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "transcripts"
FILES = sorted(Path(os.environ.get("THREADKEEP_TRANSCRIPTS", _BESIDE)).glob("*.json"))

CLASSES = {"human": HumanMessage, "ai": AIMessage, "tool": ToolMessage, "system": SystemMessage}


def load(path: Path) -> list[BaseMessage]:
    fields = ("content", "id", "tool_calls", "tool_call_id", "name", "usage_metadata", "status")
    messages = []
    for number, row in enumerate(json.loads(path.read_text())["messages"]):
        known = {key: row[key] for key in fields if row.get(key) is not None}
        messages.append(CLASSES[row["type"]](**{"id": f"n{number}", **known}))
    return messages


@pytest.mark.skipif(not FILES, reason="no transcripts here")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_transcript_is_compacted_while_it_grows(path: Path) -> None:
    counter = TokenCounter()
    policy = resolved(("tokens", 8000), keep=("messages", 6))
    live: list[BaseMessage] = []
    for message in load(path):
        live.append(message)
        if counter.messages(live) < 8000:
            continue
        parts = partition(live, policy, counter, fixed_tokens=1000)
        if parts is None:
            continue
        verify(live, parts)
        assert counter.messages(parts.kept) < counter.messages(live)
        live = list(parts.kept)
        assert partition(live, policy, counter, fixed_tokens=1000) is None
    assert counter.messages(valid_request(live)) > 0


@pytest.mark.skipif(not FILES, reason="no transcripts here")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_five_forced_compactions_in_a_row_remove_less_and_less(path: Path) -> None:
    counter, live = TokenCounter(), load(path)
    for keep in (40, 20, 10, 5, 2):
        parts = partition(live, resolved(keep=("messages", keep)), counter, fixed_tokens=0)
        if parts is not None:
            verify(live, parts)
            live = list(parts.kept)
    assert len(live) >= 2

"""Conversations for tests: generated ones, the one that is shipped, and real ones where they are at hand.

Messages are dicts: ``type`` (human, ai, tool, system), ``content``, ``id`` and, where they apply, ``tool_calls``,
``tool_call_id``, ``name``, ``status``, ``usage_metadata``. Generated ones are the same on every call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.support.prose import Kind, text

MessageDict = dict[str, Any]

_REPOSITORY = Path(__file__).resolve().parents[2]
_SHIPPED = _REPOSITORY / "tests" / "data" / "research-session.json"
_CLASSES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "tool": ToolMessage,
    "system": SystemMessage,
}
_KINDS: tuple[Kind, ...] = ("code", "log", "matches", "json", "prose")


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation with a name."""

    name: str
    messages: Sequence[MessageDict]

    def __str__(self) -> str:
        return self.name

    def as_messages(self) -> list[BaseMessage]:
        return as_messages(self.messages)


def as_messages(dicts: Sequence[MessageDict]) -> list[BaseMessage]:
    """The same conversation as LangChain messages."""
    return [_CLASSES[row["type"]](**{key: row[key] for key in row if key != "type"}) for row in dicts]


def shipped() -> Transcript:
    """The research session that the repository ships: 65 messages, English and Chinese, above 40,000 tokens."""
    return Transcript("research-session", json.loads(_SHIPPED.read_text(encoding="utf-8"))["messages"])


def load_shared_transcripts() -> Iterator[Transcript]:
    """Real conversations of the folder ``THREADKEEP_TRANSCRIPTS`` names, by default one beside the repository.

    None when there is no such folder. Fields that are null are left out.
    """
    beside = _REPOSITORY.parent / "shared" / "data" / "transcripts"
    folder = Path(os.environ.get("THREADKEEP_TRANSCRIPTS") or beside)
    for file in sorted(folder.glob("*.json")):
        rows = json.loads(file.read_text(encoding="utf-8"))["messages"]
        cleaned = [{key: value for key, value in row.items() if value is not None} for row in rows]
        yield Transcript(file.stem, cleaned)


class Writer:
    """Writes a conversation message by message; ids of messages and calls count up."""

    def __init__(self, kinds: Sequence[Kind] = _KINDS) -> None:
        self.messages: list[MessageDict] = []
        self._kinds = kinds
        self._calls = 0

    def add(self, type_: str, content: Any, **fields: Any) -> None:
        self.messages.append({"type": type_, "content": content, "id": f"m{len(self.messages):05}", **fields})

    def human(self, content: Any) -> None:
        self.add("human", content)

    def ai(self, content: Any, **fields: Any) -> None:
        self.add("ai", content, **fields)

    def call(self, *names: str, content: Any = "") -> list[str]:
        """An AI message that calls these tools; the ids of the calls."""
        calls = []
        for name in names:
            self._calls += 1
            args = {"path": f"src/part_{self._calls}.py", "query": f"step {self._calls}"}
            calls.append({"name": name, "args": args, "id": f"call_{self._calls}", "type": "tool_call"})
        self.add("ai", content, tool_calls=calls)
        return [call["id"] for call in calls]

    def result(self, call_id: str, content: Any, *, name: str = "read_file", status: str = "success") -> None:
        self.add("tool", content, tool_call_id=call_id, name=name, status=status)

    def round(self, chars: int, name: str = "read_file") -> None:
        """One call and its result of so many characters."""
        (call_id,) = self.call(name)
        number = self._calls
        failed = number % 11 == 0
        content = text(self._kinds[number % len(self._kinds)], chars, number)
        self.result(call_id, content, name=name, status="error" if failed else "success")


def long_session(
    messages: int = 200, tool_result_chars: int = 2_000, *, usage: bool = False
) -> list[MessageDict]:
    """A coding session of exactly so many messages: turns of one question, several tool rounds and an answer.

    ``usage`` adds what a provider would report: each AI message with the tokens of all before it.
    """
    writer = Writer()
    writer.add("system", "You are a careful engineer. Work in small steps and run the tests.")
    turn = 0
    while len(writer.messages) < messages:
        turn += 1
        writer.human(f"Task {turn}: {text('prose', 240, turn)}")
        for number in range(3 + turn % 5):
            writer.round(
                tool_result_chars, ("read_file", "search_files", "run_tests", "edit_file")[number % 4]
            )
        writer.ai(f"Task {turn} is done. {text('prose', 400, -turn)}")
    made = _whole(writer.messages[:messages])
    return _with_usage(made) if usage else made


def first_turn_with_tool_rounds(rounds: int = 20, tool_result_chars: int = 6_000) -> list[MessageDict]:
    """One question and so many tool rounds, without an answer yet: the first turn is all there is."""
    writer = Writer()
    writer.human(
        "Read the whole code base, find every place where a token is counted, and tell me what differs."
    )
    for _ in range(rounds):
        writer.round(tool_result_chars)
    return writer.messages


def forty_steps_28kb() -> list[MessageDict]:
    """Forty steps whose results have 28 kB each, in one turn."""
    return first_turn_with_tool_rounds(rounds=40, tool_result_chars=28_000)


def script_session(kind: Kind, turns: int = 12, chars: int = 1_500) -> list[MessageDict]:
    """A conversation in one script or kind of text: questions, a tool result and an answer in each turn."""
    writer = Writer((kind,))
    for turn in range(turns):
        writer.human(text(kind, chars // 5, turn))
        writer.round(chars)
        writer.ai(text(kind, chars // 2, turn + 1_000))
    return writer.messages


def parallel_calls_with_human_between(turns: int = 6, chars: int = 1_000) -> list[MessageDict]:
    """Parallel calls whose results come in another order, with a human message in the middle of them."""
    writer = Writer()
    for turn in range(turns):
        writer.human(f"Look at three files for question {turn}.")
        first, second, third = writer.call(
            "read_file", "search_files", "run_tests", content="Three things at once."
        )
        writer.result(second, text("matches", chars, turn), name="search_files")
        writer.human("And please hurry.")
        writer.result(third, text("log", chars, turn), name="run_tests", status="error")
        writer.result(first, text("code", chars, turn))
        writer.ai(f"Question {turn} is answered. {text('prose', 300, turn)}")
    return writer.messages


def interrupted_session(chars: int = 1_000) -> list[MessageDict]:
    """What interruptions and imports leave: a call that never got a result, a result without its call, an id used
    twice, an empty message, and a call at the end that is still pending."""
    writer = Writer()
    writer.human("Begin.")
    writer.call("run_tests", content="Running.")
    writer.human("Never mind, something else.")
    writer.result("call_from_elsewhere", text("log", chars, 1), name="run_tests")
    writer.round(chars)
    repeated = writer.messages[-1]["tool_call_id"]
    call = {"name": "read_file", "args": {"path": "again.py"}, "id": repeated, "type": "tool_call"}
    writer.ai("Once more, with the same id.", tool_calls=[call])
    writer.result(repeated, text("code", chars, 2))
    writer.ai("")
    writer.human("Go on.")
    writer.call("run_tests", "read_file")
    return writer.messages


def image_session(turns: int = 6, image_bytes: int = 120_000) -> list[MessageDict]:
    """Images from people (base64 and by address) and from tools, with text between."""
    data = ("iVBORw0KGgo" + text("code", 60, 1).encode().hex()) * (image_bytes // 130)
    inline = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "high"}}
    linked = {"type": "image_url", "image_url": {"url": "https://pictures.example/plan.png", "detail": "low"}}
    writer = Writer()
    for turn in range(turns):
        picture = inline if turn % 2 else linked
        writer.human([{"type": "text", "text": f"What does picture {turn} show?"}, picture])
        (call_id,) = writer.call("view_image")
        writer.result(call_id, [{"type": "text", "text": "The picture:"}, inline], name="view_image")
        writer.ai(f"It shows a plan. {text('prose', 600, turn)}")
    return writer.messages


def system_message_in_the_middle(turns: int = 10, chars: int = 800) -> list[MessageDict]:
    """A subagent's prompt as a system message that comes after some turns."""
    writer = Writer()
    for turn in range(turns):
        if turn == turns // 2:
            writer.add("system", "From here on you are the reviewer. Never change a file yourself.")
        writer.human(f"Step {turn}, please.")
        writer.round(chars)
        writer.ai(text("prose", chars // 2, turn))
    return writer.messages


def generated() -> list[Transcript]:
    """One of each kind, small enough for every test to take them all."""
    scripts: tuple[Kind, ...] = ("chinese", "japanese", "korean", "emoji", "code", "json")
    return [
        Transcript("long", long_session(120)),
        Transcript("long-with-usage", long_session(120, usage=True)),
        Transcript("first-turn", first_turn_with_tool_rounds()),
        *(Transcript(kind, script_session(kind)) for kind in scripts),
        Transcript("parallel-calls", parallel_calls_with_human_between()),
        Transcript("interrupted", interrupted_session()),
        Transcript("images", image_session()),
        Transcript("system-in-the-middle", system_message_in_the_middle()),
    ]


def _whole(messages: list[MessageDict]) -> list[MessageDict]:
    """A cut-off end made whole: a call whose result was cut away becomes an answer."""
    *rest, last = messages
    return [*rest, {key: value for key, value in last.items() if key != "tool_calls"}]


def _with_usage(messages: list[MessageDict]) -> list[MessageDict]:
    made: list[MessageDict] = []
    before = 0
    for message in messages:
        size = 4 + len(json.dumps([message["content"], message.get("tool_calls")])) // 4
        if message["type"] == "ai":
            usage = {"input_tokens": before, "output_tokens": size, "total_tokens": before + size}
            message = {**message, "usage_metadata": usage}
        made.append(message)
        before += size
    return made

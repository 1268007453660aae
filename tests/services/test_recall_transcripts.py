"""What an agent uses again after a compaction, and can only know from what was removed, it finds by searching."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from langchain_core.messages import BaseMessage

from app.persistence.database import Database
from app.services.recall.text import said_by
from tests.services.test_recall import Archive, state
from tests.support.transcripts import Transcript, Writer, load_shared_transcripts, shipped

# A name that is no word of prose: with a digit, a capital inside, or a mark that joins.
NAME = re.compile(r"(?<![\w./:@-])[A-Za-z0-9_~/.-][\w./:@-]{3,80}(?<![.:/-])")
CUTS = (0.3, 0.5, 0.7)
FIRST = 3


@dataclass(frozen=True, slots=True)
class Need:
    """A name in the arguments of a call after the cut that stands only in removed messages."""

    name: str
    seen: int


def is_name(text: str) -> bool:
    marked = re.search(r"\d|_|[a-z][A-Z]|\w[./:@]\w", text)
    return (
        bool(marked) and bool(re.search(r"[A-Za-z0-9]{2}", text)) and not re.fullmatch(r"[\d.:/-]{1,4}", text)
    )


def holds(text: str, name: str) -> bool:
    """Whether the name stands by itself in a text of small letters."""
    small = name.lower()
    return small in text and re.search(rf"(?<!\w){re.escape(small)}(?!\w)", text) is not None


def needs(messages: Sequence[BaseMessage], cut: int) -> Iterator[Need]:
    texts = [said_by(message).text.lower() for message in messages]
    known: set[str] = set()
    for index in range(cut, len(messages)):
        arguments = "\n".join(str(call["args"]) for call in getattr(messages[index], "tool_calls", ()))
        for name in filter(is_name, NAME.findall(arguments)):
            if name in known or any(holds(text, name) for text in texts[cut:index]):
                continue
            known.add(name)
            if any(holds(text, name) for text in texts[:cut]):
                yield Need(name, index)


async def met(archive: Archive, messages: Sequence[BaseMessage], cut: int) -> list[tuple[bool, bool]]:
    """Of each need, whether the first results meet it: asked for by the name alone, and in a sentence."""
    thread_id = await archive.thread()
    compaction = await archive.compact(thread_id, messages[:cut])
    texts = {said_by(message).reference: said_by(message).text.lower() for message in messages[:cut]}

    async def finds(query: str, need: Need) -> bool:
        live = messages[cut : need.seen]
        found = await archive.recall.search(thread_id, state(compaction, live), query, FIRST)
        return any(holds(texts[past.reference], need.name) for past in found.messages)

    return [
        (
            await finds(need.name, need),
            await finds(f"what did the result say about {need.name} earlier", need),
        )
        for need in needs(messages, cut)
    ]


async def check(archive: Archive, transcripts: Sequence[Transcript]) -> None:
    results: list[tuple[bool, bool]] = []
    for transcript in transcripts:
        messages = transcript.as_messages()
        for cut in CUTS:
            results += await met(archive, messages, int(len(messages) * cut))
    assert len(results) > 30
    for place, how in enumerate(("by name", "in a sentence")):
        share = sum(result[place] for result in results) / len(results)
        assert share >= 0.95, f"{how}: {share:.3f} of {len(results)}"


def errands(seed: int = 7) -> Transcript:
    """Names turn up in results of every script and are used again much later, among others that are much alike."""
    rng = random.Random(seed)
    writer = Writer(("code", "log", "json", "chinese", "matches"))
    names: list[str] = []
    for number in range(60):
        made = [
            f"order_{rng.randrange(10**5):05}_v{number}",
            f"src/module_{number}/{rng.choice(('Parser', 'Loader'))}{number}Test.py",
            f"ERR-{rng.randrange(10**4):04}-{number}",
            f"pkg{number}.service:Handle{rng.randrange(999)}",
        ]
        writer.human(f"Step {number}, please.")
        (call_id,) = writer.call("read_file")
        writer.result(call_id, "\n".join(f"found {name} 在这里" for name in made))
        writer.round(1500)
        if number >= 20:
            again = {"path": rng.choice(names), "note": f"see {rng.choice(names)}"}
            call = {"name": "edit_file", "args": again, "id": f"again_{number}", "type": "tool_call"}
            writer.ai("Going back to an earlier one.", tool_calls=[call])
            writer.result(f"again_{number}", "Done.", name="edit_file")
        names += made
    writer.ai("All steps are done.")
    return Transcript("errands", writer.messages)


@pytest.fixture
def archive(database: Database) -> Archive:
    return Archive(database)


async def test_names_used_again_are_found_among_the_first_three(archive: Archive) -> None:
    await check(archive, [errands(), shipped()])


async def test_names_of_real_conversations_are_found_among_the_first_three(archive: Archive) -> None:
    transcripts = list(load_shared_transcripts())
    if not transcripts:
        pytest.skip("there are no transcripts here")
    await check(archive, transcripts)

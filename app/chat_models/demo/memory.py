"""Facts without a language model: sentences in which a person says their name, what they prefer, what to remember."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from langchain_core.messages import BaseMessage

from app.chat_models.demo.transcript import block, entries
from app.compaction.fence import KNOWN_FACTS, MEMORY_TRANSCRIPT
from app.compaction.roles import is_human

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_MY_OWN = re.compile(
    r"\bmy (?P<what>name|team|company|job|role|language|time ?zone|city) is\b|(?P<name>我叫|我的名字)", re.I
)
_CALL_ME = re.compile(r"\b(?:call me|i am called)\b", re.I)
_WISH = re.compile(
    r"\bi (?:always |never )?(?P<verb>prefer|like|use|work on|live in|speak)\s+(?P<what>[^,.;!?]+)", re.I
)
_REMEMBER = re.compile(
    r"\b(?:please )?remember(?: that|:)?\s+(?P<what>[^.;!?]+)|记住[:：]?(?P<cjk>[^。！？]+)", re.I
)
_FORGET = re.compile(r"\bforget (?:my (?P<own>\w+)|that (?P<what>[^.;!?]+))", re.I)
_WORD = re.compile(r"\w+")
_LONGEST = 300
_KEY_WORDS = 4


def asks_for_facts(messages: Sequence[BaseMessage]) -> bool:
    """Whether the request is for facts: one user message with what the person said, fenced."""
    return (
        len(messages) == 1
        and is_human(messages[0])
        and block(messages[0].text, MEMORY_TRANSCRIPT) is not None
    )


def facts_in(prompt: str) -> str:
    """The answer in the form that the prompt asks for."""
    facts: dict[str, str] = {}
    forget: list[str] = []
    known = [line.partition(":")[0].strip() for line in (block(prompt, KNOWN_FACTS) or "").splitlines()]
    for said in entries(block(prompt, MEMORY_TRANSCRIPT) or ""):
        for sentence in _sentences(said.text) if said.speaker == "user" else ():
            taken_back = list(_taken_back(sentence))
            forget += [key for key in known if key in taken_back]
            if not taken_back and (key := _key_of(sentence)):
                facts[key] = f"The person said: “{sentence}”"
    listed = [{"key": key, "text": text} for key, text in facts.items()]
    return json.dumps({"facts": listed, "forget": forget}, ensure_ascii=False)


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(text):
        line = " ".join(sentence.split())
        if line and len(line) <= _LONGEST and not line.endswith(("?", "？")):
            yield line


def _key_of(sentence: str) -> str | None:
    if own := _MY_OWN.search(sentence):
        return "name" if own["name"] else own["what"].lower().replace(" ", "-")
    if _CALL_ME.search(sentence):
        return "name"
    if remember := _REMEMBER.search(sentence):
        return _key("remember", remember["what"] or remember["cjk"])
    if wish := _WISH.search(sentence):
        return _key(wish["verb"], wish["what"])
    return None


def _taken_back(sentence: str) -> Iterator[str]:
    """Keys that the sentence may mean."""
    for found in _FORGET.finditer(sentence):
        if found["own"]:
            yield found["own"].lower()
        else:
            yield _key("remember", found["what"])
            if key := _key_of(found["what"]):
                yield key


def _key(kind: str, what: str) -> str:
    return "-".join([*kind.lower().split(), *_WORD.findall(what.lower())[:_KEY_WORDS]])

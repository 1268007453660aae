"""Conversations to measure with: long, made up, and the same for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import count, islice

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

_VOCABULARY = (
    "account archive batch bucket cache channel client cluster column config cursor digest driver event filter folder"
    " frame gateway handler index invoice journal kernel ledger limit loader member mirror node order packet parser"
    " policy queue record region report route schema session shard signal snapshot stream table tenant thread ticket"
    " the a this each every new old first last stable slow quick broken careful remote local shared late early keeps"
    " returns expects replaces follows leaves finds needs holds and but because although while after"
)
_WORDS = _VOCABULARY.split()
_HAN = "会议记录用户系统数据文件更新版本测试结果分析问题方案时间服务需要完成检查部分"
_REQUEST, _REMARK, _RESULT, _ANSWER = 200, 120, 2000, 500
_CHINESE_EVERY = 8
_CHARS_PER_TOKEN = 4
_SERIALIZER = JsonPlusSerializer()


def prose(rng: random.Random, chars: int) -> str:
    """About so many characters in lines of a dozen words."""
    lines = (" ".join(rng.choices(_WORDS, k=12)) for _ in range(max(1, chars // 75)))
    return "\n".join(lines)


class Conversation:
    """Rounds of request, tool call, result and answer, without end. Messages carry ids and reported usage."""

    def __init__(self, seed: int = 1) -> None:
        self._messages = _rounds(random.Random(seed))

    def take(self, number: int) -> list[BaseMessage]:
        """The next messages; four make a round."""
        return list(islice(self._messages, number))


class Stored:
    """Messages as a checkpoint holds them: each reading makes new objects of the same content."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self._form = _SERIALIZER.dumps_typed(list(messages))

    def read(self) -> list[BaseMessage]:
        messages: list[BaseMessage] = _SERIALIZER.loads_typed(self._form)
        return messages


def text_bytes(messages: Sequence[BaseMessage]) -> int:
    """Size of all that was said and returned, as UTF-8."""
    return sum(len(message.text.encode()) for message in messages)


def _rounds(rng: random.Random) -> Iterator[BaseMessage]:
    tokens = 0
    for number in count():
        chinese = number % _CHINESE_EVERY == _CHINESE_EVERY - 1
        request = "".join(rng.choices(_HAN, k=_REQUEST)) if chinese else prose(rng, _REQUEST)
        path = f"src/{rng.choice(_WORDS)}/{rng.choice(_WORDS)}_{number}.py"
        call = ToolCall(name="read_file", args={"path": path, "offset": number}, id=f"call-{number}")
        spoken: list[BaseMessage] = [
            HumanMessage(request, id=f"request-{number}"),
            AIMessage(prose(rng, _REMARK), id=f"remark-{number}", tool_calls=[call]),
            ToolMessage(
                _result(rng, number), id=f"result-{number}", name="read_file", tool_call_id=f"call-{number}"
            ),
            AIMessage(prose(rng, _ANSWER), id=f"answer-{number}"),
        ]
        for message in spoken:
            yield _with_usage(message, tokens)
            tokens += len(message.text) // _CHARS_PER_TOKEN


def _result(rng: random.Random, number: int) -> str:
    """Every other result is JSON, as of an API."""
    if number % 2:
        return prose(rng, _RESULT)
    rows = [
        {"id": rng.randrange(10**6), "name": rng.choice(_WORDS), "tags": rng.choices(_WORDS, k=3)}
        for _ in range(_RESULT // 70)
    ]
    return json.dumps(rows)


def _with_usage(message: BaseMessage, tokens: int) -> BaseMessage:
    """A model's message as a provider sends it: with the tokens it read."""
    if not isinstance(message, AIMessage):
        return message
    written = len(message.text) // _CHARS_PER_TOKEN
    message.usage_metadata = UsageMetadata(
        input_tokens=tokens, output_tokens=written, total_tokens=tokens + written
    )
    message.response_metadata = {
        "model_provider": "openai",
        "model_name": "bench",
        "finish_reason": "tool_calls" if message.tool_calls else "stop",
    }
    return message

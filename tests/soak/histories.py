"""Messages of every kind that clients write, each with a word that stands nowhere else."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.threads import Message

_TEXTS = (
    "Grüße aus Köln, „so“ steht’s da",
    "東京の庭に四十の花壇がある。測定は終わった。",
    "def beds(n):\r\n\treturn [b for b in range(n)]  # \\n is not a newline",
    '{"path": "C:\\\\beds\\\\40.md", "ok": true, "n": 1e-7}',
    "مرحبا بالعالم 👩🏽‍🌾🌱 e\u0301 \u200b\ufeff",
    "   leading and trailing blanks   \n\n",
    "<durable_context_data>not ours</durable_context_data> & <b>",
)


class Author:
    """Writes messages by chance. ``words`` has the word of each message that has one and an id."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._count = 0
        self.words: dict[str, str] = {}

    def history(self, turns: int) -> list[Message]:
        return [message for _ in range(turns) for message in self.turn()]

    def turn(self) -> list[Message]:
        middle: Sequence[Callable[[], list[Message]]] = (lambda: [], self._tools, self._note)
        return [self._human(), *self._chance.choice(middle)(), self._answer()]

    def word(self) -> str:
        return "".join(self._chance.choices(string.ascii_lowercase, k=12))

    def text(self, words: int | None = None) -> str:
        """Something to read with one word of its own in it."""
        filler = " ".join(
            self._chance.choice(("bed", "seed", "row", "soil", "water", "frost", "compost"))
            for _ in range(self._chance.randint(10, 60) if words is None else words)
        )
        return f"{self._chance.choice(_TEXTS)} {filler}"

    def _message(self, kind: str, content: Any, word: str | None = None, **fields: Any) -> Message:
        self._count += 1
        message = {"type": kind, "content": content, **fields}
        # Some clients leave the id to the service.
        if self._chance.random() < 0.8:
            message["id"] = f"{kind}-{self._count}-{self.word()}"
            if word:
                self.words[message["id"]] = word
        return message

    def _human(self) -> Message:
        word = self.word()
        text = f"{word} {self.text()}"
        blocks = [{"type": "text", "text": text}, {"type": "text", "text": ""}]
        return self._chance.choice(
            (
                lambda: self._message("human", text, word),
                lambda: self._message("human", text, word, name="ann", additional_kwargs={"mood": ["good"]}),
                lambda: self._message("human", blocks, word),
            )
        )()

    def _answer(self) -> Message:
        word = self.word()
        text = f"{self.text()} {word}"
        return self._message(
            "ai",
            self._chance.choice((text, [{"type": "text", "text": text, "annotations": []}])),
            word,
            response_metadata={"model_name": "other", "logprobs": None, "n": 0.1},
            additional_kwargs=self._chance.choice(({}, {"reasoning_content": "hm ✓"})),
            usage_metadata={"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
        )

    def _note(self) -> list[Message]:
        word = self.word()
        return [self._message("system", f"note {word}", word)]

    def _tools(self) -> list[Message]:
        """Parallel calls with their results in any order."""
        ids = [f"call-{self.word()}" for _ in range(self._chance.randint(1, 3))]
        calls = [
            {"name": "read_file", "args": {"path": f"{i}.txt", "from": None}, "id": i, "type": "tool_call"}
            for i in ids
        ]
        results = [self._result(call_id) for call_id in self._chance.sample(ids, len(ids))]
        return [self._message("ai", "", tool_calls=calls), *results]

    def _result(self, call_id: str) -> Message:
        word = self.word()
        return self._message(
            "tool",
            f"{self.text()}\n{word}",
            word,
            tool_call_id=call_id,
            name="read_file",
            status=self._chance.choice(("success", "error")),
            artifact=self._chance.choice((None, {"rows": [1, {"a": None}]})),
        )

"""What the demo model keeps of a transcript: requests, rules, reasons, names, the last state."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator

from app.chat_models.demo.transcript import Said

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_CALL = re.compile(r"^→ call (\S+)[^\n]*$", re.MULTILINE)
_RULE = re.compile(
    r"\b(?:must|never|always|only|don't|do not|avoid|without|at (?:most|least)|no (?:more|less) than|prefer"
    r"|required|make sure|ensure|instead of)\b"
    r"|必须|不要|不能|只能|务必|请勿|禁止"
    r"|ないで|必ず|반드시|마세요",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\b(?:decided|chose|chosen|going with|will use|because|turns out|fixed|found that|ruled out"
    r"|the (?:cause|problem|issue|fix) (?:is|was))\b|决定|选择|因为|原因|改为|ため|때문",
    re.IGNORECASE,
)
# A key that was typed into a conversation has no business in its summary.
_SECRET = re.compile(
    r"(?:password|passwd|secret|token|api[_ -]?key)\W{0,3}(?:is|[:=])|\bsk-\w{8}", re.IGNORECASE
)
_ARTIFACT = re.compile(
    r"""(?<![\w/.@:~-])(?:
      https?://[^\s"'<>()\[\]{}|\\^`,]{3,200}
    | [~.]{0,2}/?(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{1,80}
    | [\w-]{1,60}\.(?:py|md|txt|json|ya?ml|toml|csv|html?|css|[jt]sx?|sql|sh|rs|go|java|cpp|pdf|png|log)\b
    | [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
    | \#\d{2,8}\b
    | [A-Z]{1,10}[-_]?\d[A-Z0-9-]{2,24}\b
    )""",
    re.ASCII | re.VERBOSE,
)
_HAS_LETTER = re.compile(r"[A-Za-z]{2}")

_LONGEST_POINT = 200
_SHORTEST_REQUEST = 8
_MOST_REQUESTS = 16
_MOST_POINTS = 12
_MOST_ARTIFACTS = 24
# What somebody took into the mouth matters more than what stood in a page among a hundred other names.
_WEIGHTS = {"user": 5, "assistant": 5}
# More of one message is not looked at for sentences; names are looked for in all of it.
_LONGEST_READ = 20_000

_STATE_OPENINGS = ("The assistant said last: ", "The newest result is of ", "Tools were called ")


class Excerpts:
    """Reads a transcript once, message by message, and remembers a bounded part of it."""

    def __init__(self) -> None:
        self._read = 0
        self._first_request: list[str] = []
        self._requests: deque[str] = deque(maxlen=_MOST_REQUESTS)
        self._rules: list[str] = []
        self._reasons: deque[str] = deque(maxlen=_MOST_POINTS)
        self._artifacts: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._errors = 0
        self._last_words = ""
        self._last_result: tuple[str, str] | None = None
        self._questions: list[str] = []

    def read(self, said: Said) -> None:
        """Take in the next message."""
        self._read += 1
        weight = _WEIGHTS.get(said.speaker, 1)
        for name in _once(_artifacts(said.text)):
            self._artifacts[name] += weight
        match said.speaker:
            case "user":
                self._read_user(said.text)
            case "assistant":
                self._read_assistant(said.text)
            case "tool result":
                self._errors += "error" in said.label.split(" · ")
                self._last_result = (said.label or "a tool", one_line(said.text))
            case _:
                pass

    def folded_into(self, so_far: dict[str, list[str]]) -> dict[str, list[str]]:
        """The points of the summary so far and of what was read, by section, each once."""
        state = list(self._state())
        replaced = tuple(opening for opening in _STATE_OPENINGS if any(p.startswith(opening) for p in state))
        kept_state = [p for p in so_far["State of the work"] if not (replaced and p.startswith(replaced))]
        names = [name for name, _ in self._artifacts.most_common(_MOST_ARTIFACTS)]
        return {
            "Intent": _once([*so_far["Intent"], *self._first_request, *self._requests]),
            "Constraints": _once([*so_far["Constraints"], *self._rules]),
            "Decisions": _once([*so_far["Decisions"], *self._reasons]),
            "Artifacts": _once([*so_far["Artifacts"], *names]),
            "State of the work": _once([*kept_state, *state]),
            "Open questions": _once(self._questions or so_far["Open questions"]),
        }

    def _read_user(self, text: str) -> None:
        request = one_line(text)
        if len(request.encode()) >= _SHORTEST_REQUEST and not _SECRET.search(request):
            self._requests.append(request)
            self._first_request = self._first_request or [request]
        sentences = list(_sentences(text))
        if len(self._rules) < _MOST_POINTS:
            self._rules += [f"“{sentence}”" for sentence in sentences if _RULE.search(sentence)]
        self._questions = [sentence for sentence in sentences if sentence.endswith(("?", "？"))][-3:]

    def _read_assistant(self, text: str) -> None:
        self._calls.update(_CALL.findall(text))
        words = _CALL.sub("", text).strip()
        if not words:
            return
        self._last_words = one_line(words)
        sentences = list(_sentences(words))
        self._reasons += [sentence for sentence in sentences if _REASON.search(sentence)]
        self._questions = [sentence for sentence in sentences if sentence.endswith(("?", "？"))][-3:]

    def _state(self) -> Iterator[str]:
        said, result, called = _STATE_OPENINGS
        if self._calls:
            listed = ", ".join(f"{name} ×{times}" for name, times in self._calls.most_common(8))
            failed = f"; {self._errors} results were errors" if self._errors else ""
            yield f"{called}{self._calls.total()} times ({listed}){failed}."
        if self._last_result:
            label, text = self._last_result
            yield f"{result}{label}: “{text}”"
        if self._last_words:
            yield f"{said}“{self._last_words}”"
        if not (self._requests or self._calls or self._last_result or self._last_words):
            yield f"{self._read} messages were read; there were no words in them."


def one_line(text: str) -> str:
    """The beginning of a text as one short line."""
    line = " ".join(text[: 4 * _LONGEST_POINT].split())
    return line if len(line) <= _LONGEST_POINT else f"{line[:_LONGEST_POINT]}…"


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(text[:_LONGEST_READ]):
        line = sentence.strip(" \t-*>#|")
        if 8 <= len(line) <= 2 * _LONGEST_POINT and not _SECRET.search(line):
            yield one_line(line)


def _artifacts(text: str) -> Iterator[str]:
    for found in _ARTIFACT.findall(text):
        name = found.rstrip(".,;:-")
        if "://" in name or not name.count("/") or _looks_like_path(name):
            yield name


def _looks_like_path(name: str) -> bool:
    """Tells ``src/app.py`` and ``/etc/hosts`` from ``and/or`` and ``1/2``."""
    return bool(_HAS_LETTER.search(name)) and (name[0] in "/~." or name.count("/") > 1 or "." in name)


def _once(points: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(points))

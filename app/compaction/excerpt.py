"""An entry of a transcript that need not be shown whole or at once: left with head and tail, or cut in two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.compaction.render import Entry, cited
from app.compaction.shorten import Count, fair_cap, head, tail

_CONTINUED = " (continued)"
# Where no word ends near a cut, the second part repeats this many characters, so that nothing is torn.
_OVERLAP = 64


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is (still) to be read of an entry: ``start``, then ``omitted`` characters that are left out, then
    ``end``. ``end`` is empty as long as nothing is left out."""

    header: str
    reference: str
    start: str
    omitted: int = 0
    end: str = ""

    @classmethod
    def whole(cls, entry: Entry) -> Excerpt:
        return cls(entry.header, entry.reference, entry.body)

    @classmethod
    def gathered(cls, entries: Sequence[Entry], number: int, tokens: int, count: Count) -> Excerpt:
        """Neighbours as one entry within ``tokens``, the beginning of each: what must be said of a shortened message
        is said once for all of them. ``number`` is that of the first."""
        header = f"[{number}–{number + len(entries) - 1}] {len(entries)} messages"
        reference = f"{entries[0].reference} … {entries[-1].reference}"
        frame = cls(header, reference, "", sum(len(entry.body) for entry in entries))
        speakers = [f"{entry.header.partition(' ')[2]}: " for entry in entries]
        room = tokens - count(frame.text) - sum(count(f"{speaker}\n") for speaker in speakers)
        if room <= len(entries):
            # Not even a word of each: the first and the last of them, then.
            whole = "\n".join(f"{who}{entry.body}" for who, entry in zip(speakers, entries, strict=True))
            return cls(header, reference, whole).shortened(tokens, count)
        cap = fair_cap([count(entry.body) for entry in entries], room)
        heads = [head(entry.body, cap, count) for entry in entries]
        lines = [f"{speaker}{text}".rstrip() for speaker, text in zip(speakers, heads, strict=True)]
        shown = sum(len(text) for text in heads)
        return replace(frame, start="\n".join(lines), omitted=frame.omitted - shown)

    @property
    def text(self) -> str:
        """As it stands in a prompt, with the omitted count and the reference (rule D1)."""
        if not self.omitted:
            return f"{cited(self.header, self.reference, len(self.start))}\n{self.start}\n"
        return f"{self.header}\n{self.start}{self._gap(self.omitted)}{self.end}\n"

    def shortened(self, tokens: int, count: Count) -> Excerpt:
        """The same with head and tail only, within ``tokens`` where the note itself fits; itself when it fits."""
        if count(self.text) <= tokens:
            return self
        everything = len(self.start) + self.omitted + len(self.end)
        room = max(0, tokens - count(f"{self.header}\n{self._gap(everything)}\n"))
        end = tail(self.end or self.start, room // 2, count)
        before = self.start if self.end else self.start[: len(self.start) - len(end)]
        start = head(before, room - count(end), count)
        return replace(self, start=start, end=end, omitted=everything - len(start) - len(end))

    def split(self, tokens: int, count: Count) -> tuple[Excerpt, Excerpt] | None:
        """A first part within ``tokens`` and the rest, for two calls. None when no first part fits."""
        continued = self.header.removesuffix(_CONTINUED) + _CONTINUED
        room = tokens - count(replace(self, end="").text)
        if self.end and room > 0:
            first, rest = _parted(self.end, room, count)
            parts = replace(self, end=first), Excerpt(continued, self.reference, rest)
        else:
            first, rest = _parted(
                self.start,
                tokens - count(f"{cited(self.header, self.reference, len(self.start))}\n\n"),
                count,
            )
            parts = Excerpt(self.header, self.reference, first), replace(self, header=continued, start=rest)
        return parts if first.strip() else None

    def _gap(self, omitted: int) -> str:
        return f"\n[… {omitted} characters omitted, ref {self.reference} …]\n"


def _parted(text: str, tokens: int, count: Count) -> tuple[str, str]:
    first = head(text, tokens, count)
    at = len(first)
    torn = at < len(text) and first and not first[-1].isspace() and not text[at].isspace()
    return first, text[at - min(_OVERLAP, at // 2) if torn else at :]

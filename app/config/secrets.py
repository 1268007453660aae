"""The section ``secrets``: what is replaced by placeholders before anybody but the conversation itself sees it."""

from __future__ import annotations

import re
import time
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from app.config.values import Section, Text, refuse
from app.redaction import SHAPES, Kind, Shape

# Python cannot stop a pattern that goes wrong, so each is tried here on texts that make bad ones slow: a few characters
# first, twice as many each time, and refused as soon as one takes longer than any good one does.
_LONGEST_TRIAL_S = 0.05
_TRIAL_LENGTHS = (*range(4, 36, 4), 64, 128, 256, 512, 1024)
_TRIAL_CHARACTERS = ("a", "A", "0", "-", "_", " ", "/", ".", "a0", "a-", "aA0-_")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_PREFIX = re.compile(r"\w[\w:=-]*")


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise refuse("must be 1 to 40 of a-z, 0-9 and '-'")
    return name


def _checked_regex(text: str) -> str:
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise refuse(f"must be a regular expression of Python ({error})") from None
    if pattern.match(""):
        raise refuse("must not match where there is nothing")
    if _is_slow(pattern):
        raise refuse(
            "must not take this long: give its repetitions a bound, {1,64}, and put none into another"
        )
    return text


def _is_slow(pattern: re.Pattern[str]) -> bool:
    found = _PREFIX.match(pattern.pattern)
    # Without its last character, which may belong to a repetition.
    prefixes = ("",) if found is None else ("", found.group()[:-1], found.group())
    return any(
        _takes_long(pattern, prefix, characters) for prefix in prefixes for characters in _TRIAL_CHARACTERS
    )


def _takes_long(pattern: re.Pattern[str], prefix: str, characters: str) -> bool:
    for length in _TRIAL_LENGTHS:
        text = prefix + (characters * length)[:length] + "\0"
        # The better of two: a busy machine is no fault of the pattern.
        if min(_seconds(pattern, text), _seconds(pattern, text)) > _LONGEST_TRIAL_S:
            return True
    return False


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    started = time.perf_counter()
    for _ in pattern.finditer(text):
        pass
    return time.perf_counter() - started


class SecretPattern(Section):
    """A kind of secret of one's own. Of the groups of ``regex``, one called ``secret`` is what is replaced, else all
    that matches."""

    name: Annotated[Text, AfterValidator(_checked_name)]
    regex: Annotated[Text, AfterValidator(_checked_regex)]

    @property
    def shape(self) -> Shape:
        return Shape(self.name, re.compile(self.regex))


class SecretsSettings(Section):
    """``archive_originals``: the archive keeps removed messages as they were; else without their secrets, and that is
    what an undo brings back."""

    enabled: bool = True
    patterns: Annotated[tuple[SecretPattern, ...], Field(strict=False)] = ()
    archive_originals: bool = True

    @field_validator("patterns")
    @classmethod
    def _unique(cls, patterns: tuple[SecretPattern, ...]) -> tuple[SecretPattern, ...]:
        names = [pattern.name for pattern in patterns]
        if twice := [name for name in names if names.count(name) > 1]:
            raise refuse(f"must have a name each; {twice[0]} is there more than once")
        return patterns

    @property
    def shapes(self) -> tuple[Kind, ...]:
        """The configured kinds before the known ones, none when it is switched off."""
        return (*(pattern.shape for pattern in self.patterns), *SHAPES) if self.enabled else ()

"""Values that stand beside a word for a secret without being assigned to it: options, elements, arguments, statements.
And which of all these ways may be meant where such a word stands."""

from __future__ import annotations

import re

from app.redaction.assigned import ASSIGNED, PLAIN, QUOTED, is_assigned, is_plain
from app.redaction.judgement import has_both, is_given, is_name, is_random, is_random_bare, is_strong
from app.redaction.shape import Cued, Way
from app.redaction.words import CUE, WORD, before, is_password, means_secret, name_before, value_of

# What only its surroundings give away has one name wherever it stands, and so one placeholder.
CREDENTIAL = "credential"

_STRONG = 16
_FLAG = re.compile(
    rf"{WORD}(?P<sign>\s{{1,3}})(?:[\"'](?P<quoted>[^\"'\\\s]{{6,512}}+)[\"']"
    r"|(?P<bare>[^\s\"'`\\,;<>(){}\[\]&|-][^\s\"'`\\,;<>(){}\[\]&|]{5,512}))"
)
_ELEMENT = re.compile(
    rf"{WORD}[\w.-]{{0,20}}(?:\s[^<>]{{0,200}})?(?P<sign>>)\s{{0,8}}(?:<!\[CDATA\[)?"
    r"(?P<bare>[^<>\s]{4,512}+)(?=\s{0,8}(?:\]\]>)?\s{0,8}</)"
)
# A name, and its value beside it: settings of .NET and Spring, manifests, what tools list as an environment.
_NAMED = re.compile(
    rf"{WORD}\\{{0,3}}[\"']?(?P<sign>,?\s{{0,24}}(?:-\s)?\\{{0,3}}[\"']?(?i:value)\\{{0,3}}[\"']?\s{{0,3}}[:=]\s{{0,3}})"
    r"(?:\\{0,3}[\"'](?P<quoted>[^\"'\\\s]{4,512}+)|(?P<bare>[^\s\"'\\,;<>(){}\[\]]{4,512}+))"
)
_CALL = re.compile(rf"{WORD}\\{{0,3}}[\"']?(?P<sign>\s?[,(]\s{{0,3}})[fFrRbBuUN@]?{QUOTED}")
_SQL = re.compile(rf"{WORD}(?P<sign>\s{{0,3}}(?:=\s{{0,3}}|\s|\(\s?))N?'(?P<quoted>[^'\s]{{3,256}}+)'")
_NETRC = re.compile(rf"{WORD}(?P<sign>\s{{1,8}})(?P<bare>\S{{3,256}}+)")

_TAG = re.compile(r"<(?:[\w-]{1,32}:)?[\w.-]{0,64}$")
_SETTER = re.compile(
    r"(?:\b(?:define|putenv|setenv|env|header|setting)|set\w{0,24}|append|add\w{0,24})\(\s*\\{0,3}[\"'][\w.-]{0,64}$",
    re.IGNORECASE,
)
_METHOD = re.compile(r"(?:set|with|check|hash|verify|encode|make)_?(?:[a-z]{0,16}_?)$", re.IGNORECASE)
_STATEMENT = frozenset(
    [
        "create",
        "alter",
        "set",
        "grant",
        "identified",
        "change",
        "user",
        "role",
        "login",
        "encrypted",
        "with",
        "server",
    ]
)
_LOGIN = re.compile(r"\blogin\s+\S+\s+$")


def is_option(match: re.Match[str]) -> bool:
    """``--db-password VALUE`` on a command line, ``set aws_secret_access_key VALUE`` for a value that is no word."""
    name, value = name_before(before(match, 48)), value_of(match)
    if name.startswith("--"):
        return is_random(value)
    return name[-1:] in ("_", "-") and len(value) >= _STRONG and is_strong(value)


def is_element(match: re.Match[str]) -> bool:
    """``<password>VALUE</password>``; of other words the value must be random."""
    if not _TAG.search(before(match, 100)):
        return False
    value = match["bare"]
    return is_given(value) and (is_password(match) or is_random_bare(value))


def is_named(match: re.Match[str]) -> bool:
    """``name: X_PASSWORD`` with ``value: VALUE`` behind it."""
    value = value_of(match)
    return is_given(value) and (is_password(match) or is_random(value))


def is_argument(match: re.Match[str]) -> bool:
    """``setPassword("VALUE")``, ``define("DB_PASSWORD", "VALUE")``."""
    value = match["quoted"]
    if "(" in match["sign"]:
        return is_password(match) and bool(_METHOD.search(before(match, 24))) and is_given(value)
    if not _SETTER.search(before(match, 100)):
        return False
    return is_random(value) and (not is_name(value) or has_both(value))


def is_of_a_statement(match: re.Match[str]) -> bool:
    """``ALTER ROLE ann PASSWORD 'VALUE'``."""
    statement = before(match, 200).rpartition(";")[2].lower().split()
    return not _STATEMENT.isdisjoint(statement) and is_password(match) and is_given(match["quoted"])


def is_of_netrc(match: re.Match[str]) -> bool:
    """``machine HOST login USER password VALUE``."""
    return match["word"] == "password" and bool(_LOGIN.search(before(match, 100))) and is_given(match["bare"])


_SIGNED: tuple[Way, ...] = ((ASSIGNED, is_assigned), (PLAIN, is_plain), (_SQL, is_of_a_statement))
_CALLED: tuple[Way, ...] = ((_CALL, is_argument), (_NAMED, is_named), (_SQL, is_of_a_statement))
_IN_ELEMENT: tuple[Way, ...] = ((_ELEMENT, is_element),)
_OF_VALUE: tuple[Way, ...] = ((_NAMED, is_named),)
_SAID: tuple[Way, ...] = ((ASSIGNED, is_assigned),)
_OF_OPTION: tuple[Way, ...] = ((_FLAG, is_option),)
_OF_STATEMENT: tuple[Way, ...] = ((_SQL, is_of_a_statement),)
_OF_LOGIN: tuple[Way, ...] = ((_NETRC, is_of_netrc),)

_WORD = re.compile(WORD + r"\\{0,3}[\"'`\]]{0,2}")
_IS = ("is", "was", "to", "ist", "laut", "est", "es")


def ways_at(text: str, at: int) -> tuple[Way, ...]:
    """Which ways to stand beside the word there are worth a try: a look ahead costs less than all patterns."""
    word = _WORD.match(text, at) if means_secret(text, at) else None
    if not word:
        return ()
    behind = text[word.end() : word.end() + 48]
    following = behind.lstrip()[:4]
    ways: tuple[Way, ...] = ()
    if following[:1] in (":", "=", "：", "＝", "是", "为", "は", "?", "+", "!"):
        ways = _SIGNED
    elif following[:1] in (",", "("):
        ways = _CALLED
    elif following.startswith(_IS):
        ways = _SAID
    if "<" in text[max(0, at - 66) : at] and (">" in behind or following[:1].isalnum()):
        ways += _IN_ELEMENT
    if behind[:1].isspace():
        ways += _spaced_ways(text[max(0, at - 100) : at], behind, following)
    return ways


def _spaced_ways(lead: str, behind: str, following: str) -> tuple[Way, ...]:
    ways: tuple[Way, ...] = ()
    if "--" in lead[-48:] or lead[-1:] in ("_", "-"):
        ways += _OF_OPTION
    if following[:1] in ("'", "N"):
        ways += _OF_STATEMENT
    if "login" in lead:
        ways += _OF_LOGIN
    return ways + _OF_VALUE if "value" in behind.lower() else ways


BESIDE = Cued(CREDENTIAL, CUE, ways_at)

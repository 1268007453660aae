"""Values that are assigned to a password, a token, a key: in code, in configuration, in a URL, in a sentence."""

from __future__ import annotations

import re

from app.redaction.judgement import (
    has_both,
    is_given,
    is_name,
    is_pin,
    is_random,
    is_random_bare,
    is_strong,
    is_unlikely_name,
)
from app.redaction.words import (
    WORD,
    before,
    is_any_key,
    is_password,
    name_before,
    names_password,
    value_of,
)

_SHORTEST = 8
_CLOSING = r"(?:\\{0,3}[\"'`\]]){0,2}"
_SPACE = r"[^\S\r\n]{0,3}"
# Up to the same quote again, or to where the text was cut off.
QUOTED = (
    r"(?P<quote>\\{0,3}[\"'`])(?P<quoted>(?:(?!(?P=quote))(?:\\\S|[^\s\\])){4,512}+)"
    r"(?=(?P=quote)|\s*\Z|\r?\n)"
)
# What may stand bare: Latin, so that a sentence in a script without spaces is none, and nothing that ends an argument
# or begins the next of a URL.
_BARE = r"(?P<bare>(?:(?!\?\w{1,32}=)[!#$%*+./0-9:=?@A-Z^_a-zÀ-ÖØ-öø-ÿ~-]){6,256})(?<![.:])(?![\w(\[{])"
_TYPE = r"[A-Za-z][\w.]{0,24}(?:\[\w{1,20}\])?(?:\s?\|\s?\w{1,12})?\s{1,3}"
ASSIGNED = re.compile(
    rf"{WORD}{_CLOSING}(?P<sign>{_SPACE}(?::=|=>|[?+!]?={{1,3}}|[:：＝是为は])"
    rf"|\s{{1,3}}(?:is|was|to|ist|lautet|est|es)(?:\s{{0,3}}:|(?=\s)))"
    rf"(?:{_SPACE}{_TYPE}=(?=\s?[\"'`]))?{_SPACE}(?:[fFrRbBuUN@]?{QUOTED}|[「『“‘«„]?{_BARE})"
)
# On a line of a shell, in a URL, in a connection string, in the file of an environment.
PLAIN = re.compile(rf"{WORD}(?P<sign>=)(?P<bare>[^\s\"'`,;&|<>()\[\]{{}}\\]{{4,256}}+)(?![(\[{{])")

_HEADER = re.compile(r"(?:^|[\s\"'`])[a-z-]{0,40}$", re.IGNORECASE)
_CONNECTION = re.compile(
    r"(?:server|data source|host|hostname|addr|address|uid|user|user id|username|database|initial catalog|dbname"
    r"|endpoint|driver)\s?=[^\n,()]{0,160}[;\s]$",
    re.IGNORECASE,
)
_VARIABLE_OPTION = re.compile(r"(?:^|\s)(?:-e|-o|-var|--set|--extra-vars|--env|--build-arg)[ =][\"']?$")


def is_assigned(match: re.Match[str]) -> bool:
    """Quoted it only has to be random enough; bare it must be no code, unless it stands where no code stands: in an
    environment, in the query of a URL, in a header."""
    if is_any_key(match) and not is_strong(value_of(match)):
        return False
    if quoted := match["quoted"]:
        return is_random(quoted) or (is_password(match) and is_pin(quoted))
    value = match["bare"]
    if is_password(match) and is_pin(value):
        return True
    if (len(value) < _SHORTEST and not is_password(match)) or not is_random_bare(value):
        return False
    return not is_name(value) or _is_no_code(match, value)


def _is_no_code(match: re.Match[str], value: str) -> bool:
    if _is_setting(match) or (is_unlikely_name(value) and "." not in value):
        return True
    if is_password(match):
        return not names_password(value) and has_both(value)
    in_header = "-" in match["word"] + before(match, 1) and match["sign"].strip() == ":"
    return in_header and has_both(value) and bool(_HEADER.search(before(match, 48)))


def _is_setting(match: re.Match[str]) -> bool:
    lead = before(match, 65)
    outside = lead[: len(lead) - len(name_before(lead))]
    return outside[-1:] in ("?", "&") or (match["sign"].strip() == "=" and match["word"].isupper())


def is_plain(match: re.Match[str]) -> bool:
    """A word, too, is a password where nothing else can stand: ``PGPASSWORD=…``, ``--password=…``, ``?password=…``,
    ``Server=…;Password=…``."""
    value = match["bare"]
    if is_any_key(match) or not is_given(value):
        return False
    lead = before(match, 240)
    name = name_before(lead)
    outside = lead[: len(lead) - len(name)]
    if not is_password(match):
        return (outside[-1:] in ("?", "&") or name.startswith("--")) and is_random_bare(value)
    if names_password(value) or (match["word"] == "PWD" and name in ("", "OLD")):
        return False
    return (
        _is_argument(name, outside)
        or _is_variable(match, name, outside)
        or _is_property(match, name, outside)
    )


def _is_argument(name: str, outside: str) -> bool:
    if name.startswith("-") or outside[-1:] in ("?", "&") or _VARIABLE_OPTION.search(outside):
        return True
    return outside[-1:] in (";", " ") and bool(_CONNECTION.search(outside))


def _is_variable(match: re.Match[str], name: str, outside: str) -> bool:
    """``DB_PASSWORD=…`` for a shell."""
    return (
        match["word"].isupper() and name.upper() == name and outside[-1:] in ("", "\n", " ", '"', "'", "\t")
    )


def _is_property(match: re.Match[str], name: str, outside: str) -> bool:
    """``spring.datasource.password=…``, alone on its line."""
    ends_line = match.string[match.end() : match.end() + 1] in ("", "\n", "\r")
    return (
        ends_line and outside[-1:] in ("", "\n") and "." in name and not name.startswith(("self.", "this."))
    )

"""Whether what stands where a secret would stand is one: random, and no name, path or blank to be filled in."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter

_LONG_PART = 20
_RANDOM_PART = 16
# Bits per character: words of a few letters have less, also with a number behind them.
_LEAST_ENTROPY = 2.5
# How often a random text of eight characters changes between letters and digits, and hardly any name does.
_LEAST_CHANGES = 3

_BLANK = re.compile(
    r"^[$%{<]|\{\{|\}\}|^[*x.•]+$|\.\.\.|…|^(?:your|example|changeme|change-me|placeholder|redacted|dummy)"
    r"|^(?:os|process|env|config|settings|self|secrets)\.",
    re.IGNORECASE,
)
_PATH = re.compile(r"^(?:[.~]{0,2}/[\w.~-]+|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]{1,20}://)|/[\w-]+\.[a-z]{1,5}$")
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:[.:]{1,2}[A-Za-z_$][\w$]*)*", re.ASCII)
_CHANGE = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_SPECIAL = re.compile(r"[!@#$%^&*+?~=/]")
_DIGIT, _LETTER = re.compile(r"\d", re.ASCII), re.compile(r"[^\W\d_]")
_LOWER, _UPPER = re.compile(r"[a-z]"), re.compile(r"[A-Z]")
_PASSWORD_WORD = re.compile(r"pass|pwd|kennwort|contraseña|密码|密碼|口令|パス", re.IGNORECASE)


def is_random_key(match: re.Match[str]) -> bool:
    """What follows ``sk-`` and the like: parts of style names are short words."""
    parts = re.split(r"[-_]", match.group())
    return any(
        len(part) >= _LONG_PART
        or (len(part) >= _RANDOM_PART and (_has_both(part) or match.group().count("-") < 3))
        for part in parts
    )


def is_header_value(match: re.Match[str]) -> bool:
    """What follows ``Bearer``: words of a sentence are in one case and without digits."""
    value = match["secret"]
    if _BLANK.search(value):
        return False
    return _has_both(value) or (bool(_LOWER.search(value[1:])) and bool(_UPPER.search(value[1:])))


def is_basic_credential(match: re.Match[str]) -> bool:
    """What follows ``Basic``: user and password in base64."""
    value = match["secret"]
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in plain and plain.isprintable()


def is_url_password(match: re.Match[str]) -> bool:
    return not _BLANK.search(match["secret"])


def is_assigned_secret(match: re.Match[str]) -> bool:
    """What is assigned to a password, a token, a key. Quoted it only has to be random enough; bare it must be no code,
    unless it stands where no code stands: in an environment, in the query of a URL."""
    value = match["quoted"] or match["bare"]
    if (
        _BLANK.search(value)
        or _PATH.search(value)
        or not _is_mixed(value)
        or _entropy(value) < _LEAST_ENTROPY
    ):
        return False
    if match["quoted"] or not _NAME.fullmatch(value):
        return True
    if _is_setting(match) or len(_CHANGE.findall(value)) >= _LEAST_CHANGES:
        return True
    word = match["word"]
    return bool(_PASSWORD_WORD.search(word)) and not _PASSWORD_WORD.search(value) and _has_both(value)


def _is_setting(match: re.Match[str]) -> bool:
    start = match.start()
    while start and (match.string[start - 1].isalnum() or match.string[start - 1] in "_-"):
        start -= 1
        if match.start() - start > 64:
            break
    in_query = start > 0 and match.string[start - 1] in "?&"
    return in_query or (match["sign"].strip() == "=" and match["word"].isupper())


def _has_both(value: str) -> bool:
    return bool(_DIGIT.search(value) and _LETTER.search(value))


def _is_mixed(value: str) -> bool:
    return bool(_LETTER.search(value)) and bool(_DIGIT.search(value) or _SPECIAL.search(value))


def _entropy(value: str) -> float:
    """Bits per character, by how often each occurs."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)

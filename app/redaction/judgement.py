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
# Characters that are enough to tell how random a value is.
_SAMPLE = 64
# How often a random text of eight characters changes between letters and digits, and hardly any name does.
_LEAST_CHANGES = 3

_BLANK = re.compile(
    # A variable, a template, a format, a reference to where the secret is.
    r"^\W{0,2}(?:\$\{|\$\(|\$[A-Za-z_][\w:]*(?=$|[^\w!@#%^&*?])|\$\d$|\$\$|%[A-Za-z_]\w*%$|%\(|%[srdqv]$|[{<\[(]|#\{|@\{|@@|!\w|&lt;)"
    r"|\{\{|\}\}|\{[A-Za-z_][\w.()]*\}|\*{3}|\.\.\.|…|^[*x.•_?#=-]+$|^x{4}"
    r"|^(?:your|example|changeme|change-me|change_me|placeholder|redacted|dummy|insert|replace[-_]|todo|fixme|enc\()"
    r"|^(?:os|process|env|config|settings|self|this|secrets|vars|var|data|local|arn|vault|op|ssm|file|env|path)[.:]",
    re.IGNORECASE,
)
# What stands there in documents, forms and schemas.
_WORD = re.compile(
    r"(?:pass(?:word|wd|phrase|code|wort)?|pwd|secret|token|key|string|str|text|bytes|none|null|nil|undefined|true|false|yes"
    r"|no|any|required|optional|hidden|prompt|stdin|ask|file|env|value|invalid|missing|wrong|incorrect|default|if|is"
    r"|for|from|with|and|or|not|to|in|the|must|should|reset|change|forgot|expired?|never|unset|empty|basic)[\W_]*",
    re.IGNORECASE,
)
# An algorithm, a type with its size, a version, a date, an address of a person, a keyword with a default.
_TECHNICAL = re.compile(
    r"(?:sha|md|base|bcrypt|scrypt|argon|pbkdf|utf|varchar|n?varchar|char|string|str|text|u?int|float|oauth|ed|aes|rsa|hs"
    r"|rs|es|oidc|saml|totp|ipv|http|min|max|len|length|level|step|version|v)[-_]?\d+\w{0,4}"
    r"|v?\d+(?:\.\d+)+[\w.-]*|\d{4}-\d\d-\d\d[\w:.+-]*|[\w.+-]{1,64}@[\w-]+(?:\.[a-z-]+)*\.[a-z]{2,}"
    r"|(?:str|int|bool|bytes|float|any|Any|None|String|object)=\w*|[a-z_]+(?:\|[a-z_]+(?::[\w,]+)?)+",
)
_PATH = re.compile(
    r"^(?:[.~]{0,2}/[\w.~-]+|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]{1,20}://)|/[\w-]+\.[a-z]{1,5}$|^[\w-]+\.(?:json|ya?ml|txt|pem|key|env)$"
)
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:[.:]{1,2}[A-Za-z_$][\w$]*)*", re.ASCII)
_KEBAB = re.compile(r"[a-z]{2,}(?:[-/.][a-z]{2,}\d{0,3}|[-/.]\d{1,3})+")
_CHANGE = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_TELLING = re.compile(r"[!@#$%^&*~]")
_DIGIT, _LETTER = re.compile(r"\d", re.ASCII), re.compile(r"[^\W\d_]")
_LOWER, _UPPER = re.compile(r"[a-z]"), re.compile(r"[A-Z]")
_ACCOUNT = re.compile(r"\b(?:create|alter|grant|set)\b", re.IGNORECASE)
_HOST = re.compile(r"\s*[\w.*/-]{1,253}")
_PIN = re.compile(r"\d{6,16}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")


def is_blank(value: str) -> bool:
    """A placeholder, a variable, a template: to be filled in."""
    return bool(_BLANK.search(value))


def is_given(value: str) -> bool:
    """Anything that is filled in: where nothing but a secret stands, also a word is one."""
    return not (is_blank(value) or _WORD.fullmatch(value) or _PATH.search(value))


def is_value(match: re.Match[str]) -> bool:
    """``is_given`` of the part that is the secret."""
    return is_given(match["secret"])


def is_random(value: str) -> bool:
    """Letters with digits or signs, not too regular, and neither a path nor one of the things that look alike."""
    if not _is_mixed(value) or _entropy(value) < _LEAST_ENTROPY:
        return False
    return not (is_blank(value) or _PATH.search(value) or _TECHNICAL.fullmatch(value))


def is_random_bare(value: str) -> bool:
    """The same where code may stand: an operator makes nothing random, and words with hyphens are a name."""
    if not is_random(value) or _KEBAB.fullmatch(value):
        return False
    return has_both(value) or bool(_TELLING.search(value)) or len(value) >= _LONG_PART


def is_name(value: str) -> bool:
    """What code may call something."""
    return bool(_NAME.fullmatch(value))


def is_unlikely_name(value: str) -> bool:
    """Letters and digits in such a turn as nobody gives them to a name."""
    return len(_CHANGE.findall(value)) >= _LEAST_CHANGES


def is_pin(value: str) -> bool:
    """A password of digits alone."""
    return bool(_PIN.fullmatch(value))


def is_strong(value: str) -> bool:
    """Random enough to be a key whatever it is called."""
    return bool(_BASE64.fullmatch(value)) and is_random(value) and is_unlikely_name(value)


def has_both(value: str) -> bool:
    """Letters and digits."""
    return bool(_DIGIT.search(value) and _LETTER.search(value))


def is_random_key(match: re.Match[str]) -> bool:
    """What follows ``sk-`` and the like: parts of style names are short words."""
    parts = re.split(r"[-_]", match.group())
    return any(
        len(part) >= _LONG_PART
        or (len(part) >= _RANDOM_PART and (has_both(part) or match.group().count("-") < 3))
        for part in parts
    )


def is_mixed_key(match: re.Match[str]) -> bool:
    """A key whose beginning is also that of words: it has digits and letters."""
    return has_both(match.group())


def is_authorization(match: re.Match[str]) -> bool:
    """What ``Authorization`` holds: behind a scheme as behind ``Bearer``, without one nothing like a name."""
    if match["scheme"]:
        return is_header_value(match)
    value = match["secret"]
    return len(value) >= _RANDOM_PART and is_random(value) and has_both(value)


def is_identified(match: re.Match[str]) -> bool:
    """What a user of a database is ``IDENTIFIED BY``; in a sentence it is something else."""
    statement = match.string[max(0, match.start() - 160) : match.start()]
    is_statement = match.group().startswith("IDENTIFIED") or _ACCOUNT.search(statement)
    return bool(is_statement) and is_given(match["secret"])


def is_header_value(match: re.Match[str]) -> bool:
    """What follows ``Bearer``: words of a sentence are in one case and without digits."""
    value = match["secret"]
    if is_blank(value):
        return False
    return has_both(value) or (bool(_LOWER.search(value[1:])) and bool(_UPPER.search(value[1:])))


def is_basic_credential(match: re.Match[str]) -> bool:
    """What follows ``Basic``: user and password in base64."""
    value = match["secret"]
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in plain and plain.isprintable()


def is_url_password(match: re.Match[str]) -> bool:
    """What stands before the ``@`` of a URL, be it a template or not."""
    return not is_blank(match["secret"])


def is_url_token(match: re.Match[str]) -> bool:
    """What stands there alone: a name of a user, or a token."""
    return is_strong(match["secret"])


def is_of_pgpass(match: re.Match[str]) -> bool:
    """What stands behind four fields that begin the line."""
    line = match.string[max(0, match.start() - 255) : match.start()].rpartition("\n")[2]
    return bool(_HOST.fullmatch(line)) and is_given(match["secret"])


def is_signature(match: re.Match[str]) -> bool:
    """What signs a URL: random, and percent signs for what is none of a URL's."""
    return is_random(match["secret"]) and len(match["secret"]) >= _LONG_PART


def is_cookie(match: re.Match[str]) -> bool:
    """Cookies of which at least one holds more than a setting."""
    pairs = (pair.partition("=") for pair in match["secret"].split(";"))
    values = (value.strip().strip("\"'") for _, _, value in pairs)
    return any(len(value) >= _RANDOM_PART and is_random(value) and has_both(value) for value in values)


def _is_mixed(value: str) -> bool:
    return bool(_LETTER.search(value)) and bool(_DIGIT.search(value) or _TELLING.search(value))


def _entropy(value: str) -> float:
    """Bits per character, by how often each occurs."""
    counts = Counter(value[:_SAMPLE]).values()
    length = min(len(value), _SAMPLE)
    return -sum(count / length * math.log2(count / length) for count in counts)

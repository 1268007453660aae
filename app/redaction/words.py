"""Words that say that a secret stands beside them: password, token, key and their kin, in several languages."""

from __future__ import annotations

import re
import string

PASSWORDS = (
    "password|passwd|passphrase|passcode|passwort|pass(?![a-z])|pwd|kennwort|contraseña|mot de passe"
    "|密码|密碼|口令|パスワード"
)
_KEYS = "secret|token|credentials|credential|密钥|密鑰|秘钥|令牌|key"
# How each of them begins, in lower case.
CUE = re.compile(
    r"mot de passe|pass|pwd|kennwort|contraseña|密码|密碼|口令|パスワード"
    r"|secret|token|credential|密钥|密鑰|秘钥|令牌|key"
)
WORD = (
    rf"(?P<word>(?i:{PASSWORDS}|{_KEYS})"
    r"(?:[_-]?(?i:access|secret|key|value|base64|b64|production|prod|staging|live|test|dev|old|new|[0-9]{1,2})){0,2}+)"
)

_IS_PASSWORD = re.compile(rf"(?i:{PASSWORDS})")
_KEY_OF = (
    *(
        "api",
        "access",
        "account",
        "private",
        "signing",
        "signature",
        "encryption",
        "encrypt",
        "auth",
        "secret",
        "shared",
    ),
    *(
        "master",
        "subscription",
        "consumer",
        "client",
        "storage",
        "webhook",
        "license",
        "licence",
        "app",
        "application",
    ),
    *("deploy", "service", "session", "jwt", "hmac", "server", "admin", "integration", "function"),
)
# Tokens of a page are no secrets, nor are those of a language model.
_TOKEN_OF = (
    *("page", "next", "sync", "continuation", "cursor", "resume", "stop", "start", "end"),
    *("pad", "eos", "bos", "unk", "mask", "sep"),
)
_IN_NAMES = string.ascii_letters + string.digits + "_.-"


def before(match: re.Match[str], length: int) -> str:
    """So many characters before the match."""
    return match.string[max(0, match.start() - length) : match.start()]


def name_before(text: str) -> str:
    """What the end of ``text`` calls something, up to its beginning."""
    return text[len(text.rstrip(_IN_NAMES)) :]


def value_of(match: re.Match[str]) -> str:
    """What stands beside the word, with or without quotes."""
    return match.groupdict().get("quoted") or match["bare"]


def is_password(match: re.Match[str]) -> bool:
    """Whether the word means a password: these may be words themselves."""
    return names_password(match["word"])


def names_password(text: str) -> bool:
    """Whether a text has a word for a password in it, so that it is a name rather than one."""
    return bool(_IS_PASSWORD.search(text))


def is_any_key(match: re.Match[str]) -> bool:
    """``KEY`` behind a word that does not tell what it opens."""
    return match["word"][:3].upper() == "KEY" and not _is_behind(before(match, 24), _KEY_OF)


def means_secret(text: str, at: int) -> bool:
    """Whether the word there means a secret: ``key`` only behind what it opens or in capitals, ``pass`` as a word."""
    lead, word = text[max(0, at - 24) : at], text[at : at + 7].lower()
    if word.startswith("key"):
        return text.startswith("KEY", at) or _is_behind(lead, _KEY_OF)
    if word.startswith("token"):
        return not _is_behind(lead, _TOKEN_OF)
    if word == "secret:" and lead.endswith("["):
        return False
    if not word.startswith("pass") or word[4:5] in ("w", "p", "c"):
        return True
    return text[at] == "P" or not lead[-1:].islower()


def _is_behind(lead: str, words: tuple[str, ...]) -> bool:
    return (lead[:-1] if lead[-1:] in ("_", "-", " ") else lead).lower().endswith(words)

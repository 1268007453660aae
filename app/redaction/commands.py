"""Passwords in the arguments of commands that are known to take one there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.redaction.beside import CREDENTIAL
from app.redaction.judgement import is_given
from app.redaction.shape import Span, secret_of

# How far before an option its command may stand.
_REACH = 400
# A command ends here; a line that goes on behind a backslash is the same one.
_END = re.compile(r"(?<!\\)\n|;|\||&&")
# Between an option and its value, also in a list of arguments.
_GAP = r"[\"']?(?:\s{1,3}|,\s{0,3})[\"']?"
_VALUE = r"(?P<secret>[^\s\"']{3,256}+)"
_QUOTED_OR_BARE = (
    r"(?:'(?P<quoted>[^'\n]{3,256}+)'|\"(?P<secret>[^\"\n]{3,256}+)\"|(?P<bare>[^\s\"'`;|&<>()]{3,256}+))"
)
_USER = re.compile(
    rf"(?:-u|--user|-U|--proxy-user|-a|--auth|-A)(?:{_GAP}|=)?[\"']?[^\s:,\"'<>${{}}]{{0,128}}[:,]{_VALUE}"
)
_JOINED = re.compile(rf"-p{_QUOTED_OR_BARE}")
_PASSWORD = re.compile(rf"(?:-p|--password|--pass)(?:{_GAP}|=)(?P<secret>[^\s\"'-][^\s\"']{{2,256}}+)")
_SSHPASS = re.compile(rf"-p(?:\s{{0,3}}|{_GAP}){_QUOTED_OR_BARE}")
_REDIS = re.compile(rf"(?:-a|--pass){_GAP}{_VALUE}")
_LDAP = re.compile(rf"-w(?:{_GAP})?{_VALUE}")
_UPPER = re.compile(rf"-P(?:{_GAP})?{_VALUE}")
_OPENSSL = re.compile(rf"-pass(?:in|out)?{_GAP}pass:{_VALUE}")
_STORE = re.compile(rf"-(?:src|dest)?(?:store|key)pass{_GAP}{_VALUE}")
_SMB = re.compile(rf"-U(?:{_GAP})?[^\s%\"']{{1,128}}%{_VALUE}")

_OPTION = re.compile(
    r"-(?<=[\s\"'\[(,]-)(?:u|p|a|w|-user|-proxy-user|-password|-pass|-auth|storepass|srcstorepass|deststorepass|keypass)"
)
# Which commands, what must stand between them and the option, and how the option looks.
_COMMANDS: tuple[tuple[str, str | None, re.Pattern[str]], ...] = (
    (r"curl|https?|xh|ab|hey|wrk|siege|jfrog|jf|newman|lftp", None, _USER),
    (r"mysql\w{0,16}|mariadb[\w-]{0,16}|mytop|xtrabackup|7z[ar]?|7zz", None, _JOINED),
    (r"sshpass", r"^[\"',\s]*$", _SSHPASS),
    (
        r"docker|podman|nerdctl|buildah|skopeo|crane|helm|az|oc|cf|heroku|ibmcloud|snyk",
        r"\blogin\b",
        _PASSWORD,
    ),
    (r"mongo(?:sh|dump|restore|export|import)?|cqlsh|influx|svn|clickhouse-client|wget", None, _PASSWORD),
    (r"(?:redis|valkey|keydb)-(?:cli|benchmark)", None, _REDIS),
    (r"ldap\w{3,10}", None, _LDAP),
    (r"sqlcmd|bcp|osql|zip|unzip", None, _UPPER),
    (r"openssl", None, _OPENSSL),
    (r"keytool|jarsigner", None, _STORE),
    (r"smbclient|rpcclient|smbmap", None, _SMB),
)
_COMMAND = re.compile(
    "|".join(rf"(?P<c{number}>{names})" for number, (names, _, _) in enumerate(_COMMANDS)).join(
        (r"(?<![\w.:-])(?:", r")(?=[\"',\s])")
    )
)
_BETWEEN = tuple(re.compile(between) if between else None for _, between, _ in _COMMANDS)


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """``curl -u ann:SECRET``, ``mysql -pSECRET``: an option means a password only for the command it belongs to."""

    name: str = CREDENTIAL
    hints: tuple[str, ...] = ()
    in_words: bool = False

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """From left to right. Commands are looked for only before options, and no part of the text twice."""
        command, looked = None, 0
        for option in _OPTION.finditer(lowered):
            at = option.start()
            for nearer in _COMMAND.finditer(lowered, max(looked, at - _REACH), at):
                command = nearer
            looked = at
            if command and at - command.start() <= _REACH and (found := _value_of(text, at, command)):
                yield found


def _value_of(text: str, at: int, command: re.Match[str]) -> Span | None:
    number = int((command.lastgroup or "c0")[1:])
    match = _COMMANDS[number][2].match(text, at)
    if not match:
        return None
    start, end = secret_of(match)
    between, before = _BETWEEN[number], text[command.end() : at]
    if not is_given(text[start:end]) or _END.search(before) or (between and not between.search(before)):
        return None
    return start, end

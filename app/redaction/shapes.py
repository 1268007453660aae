"""The kinds of secrets that are known without being told.

Every pattern is anchored at a hint and takes time linear in what it reads: repetitions have a bound, do not nest, and
are possessive where what follows could make them go back. What is no secret must stay: commit hashes, UUIDs, images in
base64, paths, names in code.
"""

from __future__ import annotations

import re

from app.redaction.judgement import (
    is_assigned_secret,
    is_basic_credential,
    is_header_value,
    is_random_key,
    is_url_password,
)
from app.redaction.shape import Accept, Shape

# A key does not begin or end within a longer word. Line breaks and signs may stand before it as escapes.
_ESCAPE = r"(?<=\\[nrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
_BOUNDS = (rf"(?:(?<![A-Za-z0-9])|{_ESCAPE})", r"(?![A-Za-z0-9])")
# For kinds that a name in code may look like a part of.
_NAME_BOUNDS = (rf"(?:(?<![A-Za-z0-9_])|{_ESCAPE})", r"(?![A-Za-z0-9_])")
# What only its surroundings give away has one name wherever it stands, and so one placeholder.
CREDENTIAL = "credential"


def _key(
    name: str, *patterns: str, accept: Accept | None = None, bounds: tuple[str, str] = _BOUNDS
) -> list[Shape]:
    """One shape for each pattern; a pattern begins with what all of its keys begin with, up to the first group."""
    shapes = []
    for pattern in patterns:
        compiled = re.compile(f"{bounds[0]}{pattern}{bounds[1]}")
        hint = re.split(r"[\[(\\]", pattern, maxsplit=1)[0].lower()
        shapes.append(Shape(name, compiled, (hint,), accept) if accept else Shape(name, compiled, (hint,)))
    return shapes


_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^\"'`-]|-(?!----)){0,20000}+-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    # A file that was cut off, or stands in a program as a text.
    r"|(?:(?:\\[nr]|[\s\"'+,]){1,12}[A-Za-z0-9+/=]{16,128}+){1,400}+)"
)
_JWT = r"eyJ[A-Za-z0-9_-]{8,8000}+\.[A-Za-z0-9_-]{8,20000}+\.[A-Za-z0-9_-]{0,4000}+"
_SLACK_HOOK = re.compile(r"hooks\.slack\.com/(?P<secret>services/[A-Za-z0-9/]{20,100}+)")
_AUTHORIZATION = re.compile(
    r"(?i:authorization)\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?"
    r"(?i:bearer|basic|token|apikey|key|digest)\s{1,3}(?P<secret>[\w.~+/=-]{6,8000}+)",
    re.ASCII,
)
_BEARER = re.compile(r"\b(?i:bearer)\s{1,3}(?P<secret>[\w.~+/=-]{16,8000}+)", re.ASCII)
_BASIC = re.compile(r"\b(?i:basic)\s{1,3}(?P<secret>[A-Za-z0-9+/]{8,1000}+={0,2})")
_URL = re.compile(r"://[^\s:/@\"'<>]{0,128}+:(?P<secret>[^\s/\"'<>]{1,256})@")

_PASSWORDS = (
    "password|passwd|passphrase|passcode|pwd|passwort|kennwort|contraseña|mot de passe"
    "|密码|密碼|口令|パスワード"
)
_KEYS = (
    "secret|token|api_key|api-key|apikey|access_key|access-key|accesskey|account_key|accountkey|private_key"
    "|privatekey|signing_key|encryption_key|auth_key|credential|credentials|密钥|密鑰|秘钥|令牌"
)
# What may stand bare: ASCII, so that a sentence in a script without spaces is none, and nothing that ends an argument.
_BARE = r"[!#$%*+./0-9:=?@A-Z^_a-z~-]"
_ASSIGNED = re.compile(
    # Tokens of a page are no secrets.
    r"(?<!\[)(?<!(?i:page))(?<!(?i:page)[_-])(?<!(?i:next)[_-])(?<!(?i:sync)[_-])"
    rf"(?P<word>(?i:{_PASSWORDS})|(?i:{_KEYS})(?:[_-]?(?i:access))?(?:[_-]?(?i:key))?)"
    r"(?:\\{0,3}[\"'\]]){0,2}"
    r"(?P<sign>\s{0,3}(?::=|=>|[:=：＝是为は])|\s{1,3}(?:is|ist|lautet|est|es)(?:\s{0,3}:|(?=\s)))\s{0,3}"
    rf"(?:\\{{0,3}}[\"'`](?P<quoted>[^\"'`\\\s]{{6,512}}+)|[「『“‘«„]?(?P<bare>{_BARE}{{8,512}}))"
    r"(?<![.:])"
)
_FLAG = re.compile(
    rf"(?<=[-\w])(?P<word>(?i:{_PASSWORDS}|{_KEYS}))(?P<sign>\s{{1,3}})(?:[\"'](?P<quoted>[^\"'\\\s]{{6,512}}+)"
    r"|(?P<bare>[^\s\"'`\\,;<>(){}\[\]&|-][^\s\"'`\\,;<>(){}\[\]&|]{7,512}))"
)
_ALL_WORDS = tuple(dict.fromkeys(f"{_PASSWORDS}|{_KEYS}".split("|")))


def _is_flag(match: re.Match[str]) -> bool:
    """``--db-password VALUE`` on a command line."""
    before = match.string[max(0, match.start() - 40) : match.start()]
    return re.search(r"(?:^|\s)--[a-z0-9-]{0,36}$", before) is not None and is_assigned_secret(match)


SHAPES: tuple[Shape, ...] = (
    Shape("private-key", _PRIVATE_KEY, ("-----begin ",)),
    *_key("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{16,250}+"),
    *_key("openrouter-key", r"sk-or-v1-[A-Za-z0-9]{20,128}+"),
    *_key("langfuse-key", r"sk-lf-[0-9a-f-]{36}", r"pk-lf-[0-9a-f-]{36}"),
    *_key("openai-key", r"sk-[A-Za-z0-9_-]{16,250}+", accept=is_random_key),
    *_key(
        "stripe-key",
        *(
            rf"{kind}_{mode}_[A-Za-z0-9]{{10,250}}+"
            for kind in ("sk", "rk", "pk")
            for mode in ("live", "test")
        ),
        r"whsec_[A-Za-z0-9+/=]{24,128}+",
        bounds=_NAME_BOUNDS,
    ),
    *_key("aws-access-key-id", *(rf"{kind}[A-Z0-9]{{16}}" for kind in ("AKIA", "ASIA", "ABIA", "ACCA"))),
    *_key("google-api-key", r"AIza[A-Za-z0-9_-]{35}"),
    *_key("google-oauth-token", r"ya29\.[A-Za-z0-9_-]{20,2000}+", r"GOCSPX-[A-Za-z0-9_-]{20,64}+"),
    *_key("github-token", *(rf"gh{kind}_[A-Za-z0-9]{{20,255}}+" for kind in "pousr")),
    *_key("github-token", r"github_pat_[A-Za-z0-9_]{22,255}+"),
    *_key(
        "gitlab-token",
        *(
            rf"{kind}-[A-Za-z0-9_-]{{20,255}}+(?:\.[a-z0-9]{{2}}\.[a-z0-9]{{9}})?"
            for kind in ("glpat", "gldt", "glrt", "glptt", "glcbt", "glft", "glsoat", "glagent", "glimt")
        ),
    ),
    *_key("slack-token", *(rf"xox{kind}-[A-Za-z0-9-]{{10,250}}+" for kind in "abeoprs")),
    *_key("slack-token", r"xapp-[A-Za-z0-9-]{10,250}+"),
    Shape("slack-webhook", _SLACK_HOOK, ("hooks.slack.com/",)),
    *_key("huggingface-token", r"hf_[A-Za-z0-9]{20,128}+"),
    *_key("npm-token", r"npm_[A-Za-z0-9]{20,128}+"),
    *_key("pypi-token", r"pypi-[A-Za-z0-9_-]{50,1000}+"),
    *_key("sendgrid-key", r"SG\.[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,128}+"),
    *_key("groq-key", r"gsk_[A-Za-z0-9]{20,128}+"),
    *_key("xai-key", r"xai-[A-Za-z0-9]{20,128}+"),
    *_key("langsmith-key", r"lsv2_[a-z]{2}_[A-Za-z0-9_]{20,128}+"),
    *_key("databricks-token", r"dapi[0-9a-f]{32}(?:-\d)?"),
    *_key("digitalocean-token", *(rf"do{kind}_v1_[0-9a-f]{{64}}" for kind in "opr")),
    *_key("shopify-token", *(rf"shp{kind}_[0-9a-fA-F]{{32}}" for kind in ("at", "ca", "pa", "ss"))),
    *_key("docker-token", r"dckr_pat_[A-Za-z0-9_-]{20,128}+"),
    *_key("vault-token", r"hvs\.[A-Za-z0-9_-]{20,256}+", r"hvb\.[A-Za-z0-9_-]{20,256}+"),
    *_key("perplexity-key", r"pplx-[A-Za-z0-9]{20,128}+"),
    *_key("replicate-token", r"r8_[A-Za-z0-9]{30,64}+"),
    *_key("grafana-token", r"glsa_[A-Za-z0-9_]{32,64}+", r"glc_[A-Za-z0-9+/=]{32,400}+"),
    *_key("notion-token", r"ntn_[A-Za-z0-9]{30,128}+"),
    *_key("linear-key", r"lin_api_[A-Za-z0-9]{30,64}+"),
    *_key("tavily-key", r"tvly-[A-Za-z0-9_-]{20,128}+", accept=is_random_key),
    *_key("age-secret-key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    *_key("threadkeep-key", r"tk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}"),
    *_key("jwt", _JWT),
    Shape(CREDENTIAL, _URL, ("://",), is_url_password),
    Shape(CREDENTIAL, _AUTHORIZATION, ("authorization",), is_header_value),
    Shape(CREDENTIAL, _BEARER, ("bearer",), is_header_value),
    Shape(CREDENTIAL, _BASIC, ("basic",), is_basic_credential),
    Shape(CREDENTIAL, _ASSIGNED, _ALL_WORDS, is_assigned_secret),
    Shape(CREDENTIAL, _FLAG, _ALL_WORDS, _is_flag),
)

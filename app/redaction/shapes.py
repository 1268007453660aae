"""The kinds of secrets that are known without being told.

Every pattern is anchored at a hint and takes time linear in what it reads: repetitions have a bound, do not nest, and
are possessive where what follows could make them go back. What is no secret must stay: commit hashes, UUIDs, images in
base64, paths, names in code.
"""

from __future__ import annotations

import re

from app.redaction.beside import BESIDE, CREDENTIAL
from app.redaction.commands import CommandOptions
from app.redaction.documents import PrivateKeys, SecretManifests
from app.redaction.judgement import (
    is_authorization,
    is_basic_credential,
    is_cookie,
    is_header_value,
    is_identified,
    is_of_pgpass,
    is_signature,
    is_url_password,
    is_url_token,
    is_value,
)
from app.redaction.keys import KEYS
from app.redaction.shape import Kind, Shape

_AUTHORIZATION = re.compile(
    r"(?i:authorization)(?:\\{0,3}[\"'\]]){0,2}\s{0,3}(?:[:=,]|=>)\s{0,3}\[?\\{0,3}[\"'`]?"
    r"(?P<scheme>(?i:bearer|basic|token|apikey|api-key|key|digest|bot|sso-key|sharedkey|genie-?key|ssws|zoho-oauthtoken|oauth|negotiate)"
    r"[ :=]{1,3})?\\{0,3}[\"']?(?P<secret>[\w.~+/=:-]{6,8000}+)",
    re.ASCII,
)
_BEARER = re.compile(r"\b(?i:bearer)\s{1,3}(?P<secret>[\w.~+/=-]{16,8000}+)", re.ASCII)
_BASIC = re.compile(r"\b(?i:basic)\s{1,3}(?P<secret>[A-Za-z0-9+/]{8,1000}+={0,2})")
_URL = re.compile(r"://[^\s:/@\"'<>]{0,128}+:(?P<secret>[^\s/\"'<>]{1,256})@")
_URL_TOKEN = re.compile(r"://(?P<secret>[A-Za-z0-9_-]{16,256}+)@")
_SIGNATURE = re.compile(r"(?<=[?&;-])(?i:sig|signature)=(?P<secret>[A-Za-z0-9%+/_-]{20,1024}+={0,2})")
_COOKIE = re.compile(
    r"(?<![sS]et-)(?i:cookies?)(?:\\{0,3}[\"'\]]){0,2}\s{0,3}[:=,]\s{0,3}\\{0,3}[\"'`]?"
    r"(?P<secret>[\w.!$-]{1,64}=[^\s;,\"'`\\]{0,4096}+(?:;\s?[\w.!$-]{1,64}=[^\s;,\"'`\\]{0,4096}+){0,64})",
    re.ASCII,
)
# What follows the first pair of Set-Cookie are attributes.
_SET_COOKIE = re.compile(
    r"(?i:set-cookie)\\{0,3}[\"']?\s{0,3}[:,]\s{0,3}\\{0,3}[\"'`]?(?P<secret>[\w.!$-]{1,64}=[^\s;,\"'`\\]{1,4096}+)",
    re.ASCII,
)
_IDENTIFIED = re.compile(
    r"identified (?:with \S{1,64} )?(?:by|as) (?:password )?'(?P<secret>[^'\n]{3,256}+)'", re.IGNORECASE
)
# A line of .pgpass: host, port, database, user, password.
_PGPASS = re.compile(
    r":(?:5432|\*|\d{4,5}):(?:[\w.*-]{1,63}):(?:[\w.*-]{1,63}):(?P<secret>[^\s:]{3,256})(?=\s|\Z)"
)
_DOCKER_AUTH = re.compile(r"auth\\{0,3}\"\s{0,3}:\s{0,3}\\{0,3}\"(?P<secret>[A-Za-z0-9+/]{8,1000}+={0,2})")
_NPM_AUTH = re.compile(r"_auth\s{0,3}=\s{0,3}[\"']?(?P<secret>[A-Za-z0-9+/]{8,1000}+={0,2})")
_AUTH_PAIR = re.compile(
    r"(?:auth\s{0,3}=\s{0,3}|(?:Basic|Digest)(?:Auth|Credential)\w{0,12})\(\s{0,3}(?:[\"'][^\"'\s]{1,128}[\"']|[\w.]{1,40}),"
    r"\s{0,3}[\"'](?P<secret>[^\"'\s]{4,256}+)[\"']"
)
_REDIS = re.compile(r"(?:requirepass|masterauth)\s{1,3}[\"']?(?P<secret>[^\s\"']{3,256}+)", re.IGNORECASE)
_FROM_LITERAL = re.compile(r"--from-literal[= ][\"']?[\w.-]{1,128}=(?P<secret>[^\s\"']{3,512}+)")
_SECURE_STRING = re.compile(
    r"(?i:convertto-securestring)\s{1,3}(?:-String\s{1,3})?[\"'](?P<secret>[^\"'\n]{3,256}+)[\"']"
)
_HTPASSWD = re.compile(
    r"htpasswd\s{1,3}-\w{0,6}b\w{0,6}\s{1,3}\S{1,200}\s{1,3}\S{1,64}\s{1,3}[\"']?(?P<secret>[^\s\"'|;&]{3,256}+)"
)
_PIPED = re.compile(
    r"echo\s{1,3}(?:-n\s{1,3})?[\"']?(?:[\w.-]{1,64}:)?(?P<secret>[^\s\"'|]{4,256}+)[\"']?\s{0,3}\|\s{0,3}(?:sudo\s{1,3})?(?:chpasswd|sudo\s{1,3}-\w{0,4}S|\w{2,12}\s[^\n|]{0,120}--password-stdin)"
)

SHAPES: tuple[Kind, ...] = (
    PrivateKeys(),
    *KEYS,
    SecretManifests(),
    Shape(CREDENTIAL, _URL, ("://",), is_url_password),
    Shape(CREDENTIAL, _URL_TOKEN, ("://",), is_url_token),
    Shape(CREDENTIAL, _SIGNATURE, ("sig=", "signature="), is_signature),
    Shape(CREDENTIAL, _AUTHORIZATION, ("authorization",), is_authorization),
    Shape(CREDENTIAL, _BEARER, ("bearer",), is_header_value),
    Shape(CREDENTIAL, _BASIC, ("basic",), is_basic_credential),
    Shape("cookie", _SET_COOKIE, ("set-cookie",), is_cookie),
    Shape("cookie", _COOKIE, ("cookie",), is_cookie),
    Shape(CREDENTIAL, _IDENTIFIED, ("identified ",), is_identified),
    Shape(CREDENTIAL, _PGPASS, (":5432:", ":*:"), is_of_pgpass),
    Shape(CREDENTIAL, _DOCKER_AUTH, ('auth"', 'auth\\"'), is_basic_credential),
    Shape(CREDENTIAL, _NPM_AUTH, ("_auth",), is_basic_credential),
    Shape(CREDENTIAL, _AUTH_PAIR, ("auth", "basicauth", "basiccredential", "digestauth"), is_value),
    Shape(CREDENTIAL, _REDIS, ("requirepass", "masterauth"), is_value),
    Shape(CREDENTIAL, _FROM_LITERAL, ("--from-literal",), is_value),
    Shape(CREDENTIAL, _SECURE_STRING, ("convertto-securestring",), is_value),
    Shape(CREDENTIAL, _HTPASSWD, ("htpasswd ",), is_value),
    Shape(CREDENTIAL, _PIPED, ("echo ",), is_value),
    CommandOptions(),
    BESIDE,
)

"""JSON Web Tokens: what is believed of them, and what is not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.config import JwtSettings
from app.errors import AuthUnavailable, ConfigError, Unauthorized
from app.services.accounts.service import Caller, Shown
from app.services.accounts.tokens import FLOOR_S, FRESH_S, PublicKeys, TokenAccounts, token_accounts

SECRET = "a secret that has more than thirty-two bytes"
ISSUER, AUDIENCE = "https://login.example", "threadkeep"
RSA_KEY = rsa.generate_private_key(65537, 2048)
OTHER_RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def claims(**given: Any) -> dict[str, Any]:
    whole = {"sub": "ann", "exp": time.time() + 60, "iss": ISSUER, "aud": AUDIENCE, **given}
    return {name: value for name, value in whole.items() if value is not None}


def jwk(key: Any, kid: str | None, **more: Any) -> dict[str, Any]:
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), **({"kid": kid} if kid else {}), **more}


def by_secret(**settings: Any) -> TokenAccounts:
    return token_accounts(JwtSettings.model_validate({"secret": SECRET, **settings}), {}, Path())


def by_keys(folder: Path, keys: list[dict[str, Any]], **settings: Any) -> TokenAccounts:
    (folder / "jwks.json").write_text(json.dumps({"keys": keys}))
    whole = {"jwks": "jwks.json", "issuer": ISSUER, "audience": AUDIENCE, **settings}
    return token_accounts(JwtSettings.model_validate(whole), {}, folder)


async def caller(accounts: TokenAccounts, token: str) -> Caller:
    return await accounts.caller(Shown(None, token))


async def test_a_token_says_whose_it_is() -> None:
    token = jwt.encode(claims(), SECRET, "HS256")
    assert await caller(by_secret(), token) == Caller("ann", False, "ann")


@pytest.mark.parametrize(
    ("settings", "given", "admin"),
    [
        ({}, {"scope": "read threadkeep:admin"}, True),
        ({}, {"scope": "read threadkeep:administrator"}, False),
        ({}, {"scope": True}, False),
        (
            {"admin_claim": "realm_access.roles", "admin_value": "boss"},
            {"realm_access": {"roles": ["boss"]}},
            True,
        ),
        (
            {"admin_claim": "https://x.example/roles", "admin_value": "boss"},
            {"https://x.example/roles": "boss"},
            True,
        ),
        ({"admin_claim": "realm_access.roles"}, {"realm_access": "threadkeep:admin"}, False),
    ],
)
async def test_administrators_are_told_by_a_claim(
    settings: dict[str, Any], given: dict[str, Any], admin: bool
) -> None:
    token = jwt.encode(claims(**given), SECRET, "HS256")
    assert (await caller(by_secret(**settings), token)).admin is admin


async def test_the_owner_may_be_another_claim() -> None:
    token = jwt.encode(claims(email="ann@example.com"), SECRET, "HS256")
    assert (await caller(by_secret(owner_claim="email"), token)).owner == "ann@example.com"


@pytest.mark.parametrize(
    "given",
    [
        {"exp": time.time() - 120},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": time.time() + 86_400},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "a\nb"},
        {"sub": "x" * 201},
    ],
)
async def test_a_token_that_is_not_for_us_or_not_for_now_is_refused(given: dict[str, Any]) -> None:
    accounts = by_secret(issuer=ISSUER, audience=AUDIENCE)
    assert (await caller(accounts, jwt.encode(claims(), SECRET, "HS256"))).owner == "ann"
    with pytest.raises(Unauthorized):
        await caller(accounts, jwt.encode(claims(**given), SECRET, "HS256"))


async def test_clocks_may_differ_a_little() -> None:
    token = jwt.encode(claims(exp=time.time() - 10), SECRET, "HS256")
    assert (await caller(by_secret(), token)).owner == "ann"
    with pytest.raises(Unauthorized, match="expired"):
        await caller(by_secret(leeway_s=0), token)


@pytest.mark.parametrize(
    "token", ["", "a.b.c", "x" * 20_000, "é", "..", jwt.encode({"sub": "ann"}, SECRET, "HS256")]
)
async def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(Unauthorized):
        await by_secret().caller(Shown(None, token or None))


def unsigned(header: dict[str, Any], payload: dict[str, Any]) -> bytes:
    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    return part(header) + b"." + part(payload)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", ""])
async def test_a_token_without_a_signature_is_refused(tmp_path: Path, algorithm: str) -> None:
    token = (unsigned({"alg": algorithm}, claims()) + b".").decode()
    for accounts in (by_secret(), by_keys(tmp_path, [jwk(RSA_KEY, "a")])):
        with pytest.raises(Unauthorized):
            await caller(accounts, token)


async def test_a_public_key_is_no_secret(tmp_path: Path) -> None:
    """The oldest trick: sign with what everybody can read."""
    accounts = by_keys(
        tmp_path,
        [
            jwk(RSA_KEY, "a"),
            {
                "kty": "oct",
                "kid": "o",
                "k": base64.urlsafe_b64encode(SECRET.encode()).decode(),
                "alg": "HS256",
            },
        ],
    )
    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = unsigned({"alg": "HS256", "kid": "a"}, claims())
    signature = base64.urlsafe_b64encode(hmac.new(public, signed, hashlib.sha256).digest()).rstrip(b"=")
    for token in (
        (signed + b"." + signature).decode(),
        jwt.encode(claims(), SECRET, "HS256", headers={"kid": "o"}),
    ):
        with pytest.raises(Unauthorized):
            await caller(accounts, token)


async def test_a_signature_is_checked_with_the_key_of_its_id(tmp_path: Path) -> None:
    accounts = by_keys(tmp_path, [jwk(RSA_KEY, "a"), jwk(OTHER_RSA_KEY, "b"), jwk(EC_KEY, "c")])
    for key, kid, algorithm in (
        (RSA_KEY, "a", "RS256"),
        (OTHER_RSA_KEY, "b", "RS256"),
        (EC_KEY, "c", "ES256"),
    ):
        token = jwt.encode(claims(), key, algorithm, headers={"kid": kid})
        assert (await caller(accounts, token)).owner == "ann"
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (RSA_KEY, {"kid": "b"}, "RS256"),
        (RSA_KEY, {"kid": "z"}, "RS256"),
        (RSA_KEY, {}, "RS256"),
        (RSA_KEY, {"kid": "a"}, "RS512"),
        (RSA_KEY, {"kid": "c"}, "RS256"),
    ]
    for key, headers, algorithm in wrong:
        with pytest.raises(Unauthorized):
            await caller(accounts, jwt.encode(claims(), key, algorithm, headers=headers))


async def test_without_an_id_there_must_be_one_key_that_fits(tmp_path: Path) -> None:
    accounts = by_keys(tmp_path, [jwk(RSA_KEY, None), jwk(EC_KEY, "c"), jwk(OTHER_RSA_KEY, "e", use="enc")])
    assert (await caller(accounts, jwt.encode(claims(), RSA_KEY, "RS256"))).owner == "ann"
    with pytest.raises(Unauthorized):
        await caller(accounts, jwt.encode(claims(), OTHER_RSA_KEY, "RS256", headers={"kid": "e"}))


class Provider:
    """Gives out its keys, counts how often, and can be away. ``now`` is its clock and ours."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys)
        self.asked = 0
        self.away = False
        self.now = 1000.0

    async def read(self) -> Any:
        self.asked += 1
        if self.away:
            raise OSError("away")
        return {"keys": self.keys}


def accounts_of(provider: Provider) -> Callable[[str, Any], Any]:
    settings = JwtSettings(jwks="https://login.example/jwks", issuer=ISSUER, audience=AUDIENCE)
    accounts = TokenAccounts(settings, PublicKeys(provider.read, clock=lambda: provider.now))
    return lambda kid, key: caller(accounts, jwt.encode(claims(), key, "RS256", headers={"kid": kid}))


async def test_keys_are_kept_and_read_again_for_a_new_one_but_not_for_each_made_up_one() -> None:
    provider = Provider(jwk(RSA_KEY, "a"))
    ask = accounts_of(provider)
    for _ in range(5):
        await ask("a", RSA_KEY)
    assert provider.asked == 1
    for number in range(20):
        with pytest.raises(Unauthorized):
            await ask(f"made-up-{number}", OTHER_RSA_KEY)
    assert provider.asked == 1
    provider.keys = [jwk(OTHER_RSA_KEY, "b")]
    provider.now += FLOOR_S
    assert (await ask("b", OTHER_RSA_KEY)).owner == "ann"
    assert provider.asked == 2
    with pytest.raises(Unauthorized):
        await ask("a", RSA_KEY)


async def test_known_keys_do_while_the_provider_is_away_and_a_new_service_says_so() -> None:
    provider = Provider(jwk(RSA_KEY, "a"))
    ask, new = accounts_of(provider), accounts_of(provider)
    await ask("a", RSA_KEY)
    provider.away = True
    provider.now += FRESH_S + 1
    assert (await ask("a", RSA_KEY)).owner == "ann"
    with pytest.raises(AuthUnavailable):
        await new("a", RSA_KEY)


@pytest.mark.parametrize(
    ("secret", "environ", "said"),
    [("$JWT", {}, "the variable \\$JWT"), ("$JWT", {"JWT": "short"}, "32 bytes"), ("short", {}, "32 bytes")],
)
def test_a_secret_that_is_none_stops_the_start(secret: str, environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        token_accounts(JwtSettings.model_validate({"secret": secret}), environ, Path())


@pytest.mark.parametrize("content", [None, "no json", "[]", '{"keys": []}'])
def test_a_file_without_keys_stops_the_start(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "jwks.json").write_text(content)
    settings = JwtSettings(jwks="jwks.json", issuer=ISSUER, audience=AUDIENCE)
    with pytest.raises(ConfigError, match=r"auth\.jwt\.jwks"):
        token_accounts(settings, {}, tmp_path)


def test_the_secret_is_never_shown() -> None:
    settings = JwtSettings.model_validate({"secret": SECRET})
    assert SECRET not in repr(settings) + repr(by_secret()) + repr(by_secret()._keys)

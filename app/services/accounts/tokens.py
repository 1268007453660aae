"""JSON Web Tokens: checked by a shared secret or by the public keys of who issued them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx
import jwt
import orjson
from jwt.types import Options

from app.config import JwtSettings
from app.errors import AuthUnavailable, ConfigError, InvalidInput, Unauthorized
from app.services.accounts.service import Caller, Shown, check_owner

# Keys are fetched anew after this time, and for a key nobody knows, but not more often than the floor: a flood of
# tokens with made-up key ids must not become a flood of requests to the provider.
FRESH_S = 300.0
FLOOR_S = 30.0
_FETCH_SECONDS = 5.0
_MAX_BYTES = 1024 * 1024
_LONGEST_TOKEN = 16 * 1024
_NEEDED = "A token is needed behind Authorization: Bearer"
_NOT_VALID = "The token is not valid"

_log = logging.getLogger(__name__)

ReadKeys = Callable[[], Any]


class VerificationKeys(Protocol):
    """What a signature is checked with."""

    async def find(self, kid: str | None, algorithm: str) -> Any:
        """The key of this id for this algorithm; None when there is none. Raises AuthUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """One secret for all tokens."""

    secret: str = field(repr=False)

    async def find(self, kid: str | None, algorithm: str) -> str | None:
        return self.secret


class PublicKeys:
    """The keys of a JWKS document. ``read`` is a coroutine function that gets it; ``clock`` is seconds.

    What was read before goes on being used while it cannot be read again.
    """

    def __init__(self, read: ReadKeys, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._tried: float | None = None
        self._turn = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if self._age() > FRESH_S:
            await self._refresh(FLOOR_S)
        found = _matching(self._keys, kid, algorithm)
        if found is None and self._age() >= FLOOR_S:
            await self._refresh(FLOOR_S)
            found = _matching(self._keys, kid, algorithm)
        if not self._keys:
            raise AuthUnavailable(
                "The keys that tokens are checked with cannot be read; try again in a moment"
            )
        return found

    def _age(self) -> float:
        return float("inf") if self._tried is None else self._clock() - self._tried

    async def _refresh(self, floor: float) -> None:
        async with self._turn:
            if self._age() < floor:
                return
            self._tried = self._clock()
            try:
                self._keys = _usable(await self._read())
            except (httpx.HTTPError, OSError, ValueError) as error:
                _log.warning("the keys of auth.jwt.jwks cannot be read: %s", type(error).__name__)


class TokenAccounts:
    """Tokens of a provider. Signature, times, issuer, audience and algorithm are checked; nothing else is believed."""

    required = True

    def __init__(self, settings: JwtSettings, keys: VerificationKeys) -> None:
        self._settings = settings
        self._keys = keys
        checked = {"verify_aud": settings.audience is not None, "verify_iss": settings.issuer is not None}
        self._options: Options = {"require": ["exp"], **checked}  # type: ignore[typeddict-item]

    async def caller(self, shown: Shown) -> Caller:
        if shown.bearer is None:
            raise Unauthorized(_NEEDED)
        claims = await self._claims(shown.bearer)
        owner = claim(claims, self._settings.owner_claim)
        try:
            # The empty name would be the owner of what was there before accounts.
            name = check_owner(owner, "token") if isinstance(owner, str) and owner else None
        except InvalidInput:
            name = None
        if name is None:
            raise Unauthorized(f"The token does not say whose it is: claim {self._settings.owner_claim}")
        return Caller(name, self._is_admin(claims), name)

    async def _claims(self, token: str) -> Mapping[str, Any]:
        try:
            if len(token) > _LONGEST_TOKEN:
                raise jwt.DecodeError
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in self._settings.accepted:
                raise jwt.InvalidAlgorithmError
            key = await self._keys.find(header.get("kid"), algorithm)
            if key is None:
                raise jwt.InvalidKeyError
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                options=self._options,
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=self._settings.leeway_s,
            )
        except jwt.ExpiredSignatureError:
            raise Unauthorized("The token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError):
            # The library's texts may quote the token.
            raise Unauthorized(_NOT_VALID) from None

    def _is_admin(self, claims: Mapping[str, Any]) -> bool:
        match claim(claims, self._settings.admin_claim):
            case str() as text:
                return self._settings.admin_value in text.split()
            case list() as several:
                return self._settings.admin_value in several
            case _:
                return False


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that very name, else the one that its dots lead to (``realm_access.roles``)."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def token_accounts(settings: JwtSettings, environ: Mapping[str, str], config_dir: Path) -> TokenAccounts:
    """Raises ConfigError for a secret that is not set, and for a file without keys."""
    if (secret := settings.shared_secret(environ)) is not None:
        return TokenAccounts(settings, SharedSecret(secret))
    if settings.jwks_is_url:
        return TokenAccounts(settings, PublicKeys(_Remote(settings.jwks or "").read))
    file = _File(settings.jwks_file(config_dir))
    try:
        usable = _usable(orjson.loads(file.path.read_bytes()))
    except (OSError, ValueError) as error:
        raise ConfigError(f"auth.jwt.jwks: {file.path} cannot be read: {type(error).__name__}") from None
    if not usable:
        raise ConfigError(f"auth.jwt.jwks: {file.path} holds no public key")
    return TokenAccounts(settings, PublicKeys(file.read))


@dataclass(frozen=True, slots=True)
class _Remote:
    url: str

    async def read(self) -> Any:
        async with (
            httpx.AsyncClient(timeout=_FETCH_SECONDS) as client,
            asyncio.timeout(_FETCH_SECONDS),
            client.stream("GET", self.url) as answer,
        ):
            answer.raise_for_status()
            body = b""
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise ValueError("too long")
        return orjson.loads(body)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path

    async def read(self) -> Any:
        return orjson.loads(await asyncio.to_thread(self.path.read_bytes))


def _usable(document: Any) -> list[Mapping[str, Any]]:
    """The public signature keys of a JWKS document. Raises ValueError when it is none."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise ValueError("no JWKS document")
    return [
        key
        for key in keys
        # A symmetric key in a public document is no secret.
        if isinstance(key, dict)
        and key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use") in (None, "sig")
    ]


def _matching(keys: Sequence[Mapping[str, Any]], kid: str | None, algorithm: str) -> jwt.PyJWK | None:
    """The one key for a token. Without an id in the token there must be one key only that fits."""
    fitting = [
        built for key in keys if (kid is None or key.get("kid") == kid) and (built := _built(key, algorithm))
    ]
    return fitting[0] if len(fitting) == 1 or (fitting and kid is not None) else None


def _built(key: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    if key.get("alg") not in (None, algorithm):
        return None
    try:
        return jwt.PyJWK(dict(key), algorithm)
    except jwt.PyJWTError:
        # Of another kind than the algorithm.
        return None

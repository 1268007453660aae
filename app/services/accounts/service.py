"""Who asks: from the key or the token that a request shows to the owner of what it may see."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from app.errors import InvalidInput, NotFound, Unauthorized
from app.persistence.accounts import AccountStore, KeyRecord, ValidKey

NOBODY = ""
"""The owner of everything as long as there are no accounts."""

MAX_OWNER_LENGTH = 200
# A revoked key is refused everywhere after this time at the latest, and a busy one costs no query per request.
REMEMBERED_S = 5.0
_MOST_REMEMBERED = 1024
_ID_BYTES, _SECRET_BYTES = 8, 32
_KEY = re.compile(r"tk_([0-9a-f]{16})_([\w-]{43})", re.ASCII)
_NO_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``owner`` is whose things it is about: their own, or those of whom an administrator acts for.

    ``subject`` is who they are, whose requests are counted.
    """

    owner: str
    admin: bool = False
    subject: str = NOBODY


@dataclass(frozen=True, slots=True)
class Shown:
    """What a request shows: a key in ``x-api-key``, what stands behind ``Bearer``; never in a text of this."""

    key: str | None = field(default=None, repr=False)
    bearer: str | None = field(default=None, repr=False)


class Authenticator(Protocol):
    """One way to tell who asks. ``required`` False: everybody may do everything."""

    @property
    def required(self) -> bool: ...

    async def caller(self, shown: Shown) -> Caller:
        """Raises Unauthorized, and AuthUnavailable when that cannot be told now."""
        ...


class NoAccounts:
    """Whoever reaches the service is its one owner and administrator."""

    required = False

    async def caller(self, shown: Shown) -> Caller:
        return Caller(NOBODY, admin=True)


class KeyAccounts:
    """Keys of the table ``api_keys``: long random texts, kept as digests. A digest needs no slow hash, since nobody can
    try 2**256 keys. ``clock`` is seconds."""

    required = True

    def __init__(self, store: AccountStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._remembered: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()

    async def caller(self, shown: Shown) -> Caller:
        key = shown.key or shown.bearer
        if key is None:
            raise Unauthorized("A key is needed: in the header x-api-key, or behind Authorization: Bearer")
        digest = digest_of(key)
        return self._known(digest) or await self._looked_up(key, digest)

    async def create(
        self, owner: str, *, admin: bool = False, expires_at: datetime | None = None
    ) -> tuple[str, KeyRecord]:
        """A new key, which can never be shown again, and its record. Raises InvalidInput for an owner's name that is
        none."""
        check_owner(owner, "owner")
        key_id = secrets.token_hex(_ID_BYTES)
        key = f"tk_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        return key, await self._store.add(key_id, digest_of(key), owner, admin, expires_at)

    async def listed(self, owner: str | None = None) -> list[KeyRecord]:
        return await self._store.listed(owner)

    async def owners(self) -> list[Mapping[str, Any]]:
        """Everybody who has a key or a thread, by name."""
        return await self._store.owners()

    async def revoke(self, key_id: str) -> KeyRecord:
        """Raises NotFound."""
        record = await self._store.revoke(key_id)
        if record is None:
            raise NotFound(f"There is no key {key_id}")
        return record

    def _known(self, digest: bytes) -> Caller | None:
        until, caller = self._remembered.get(digest, (0.0, None))
        return caller if self._clock() < until else None

    async def _looked_up(self, key: str, digest: bytes) -> Caller:
        parts = _KEY.fullmatch(key)
        found = await self._store.valid(parts[1]) if parts else None
        # Compared in any case, and in constant time.
        expected = found or ValidKey(_NO_DIGEST, NOBODY, False)
        if not hmac.compare_digest(digest, expected.digest) or found is None:
            raise Unauthorized("The key is not valid")
        caller = Caller(found.owner, found.admin, found.owner)
        self._remembered[digest] = (self._clock() + REMEMBERED_S, caller)
        self._remembered.move_to_end(digest)
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return caller


def digest_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def check_owner(name: str, where: str) -> str:
    """The name of an owner, as it was given. ``""`` owns what was there before accounts. Raises InvalidInput."""
    if len(name) > MAX_OWNER_LENGTH or not name.isprintable() or name != name.strip():
        raise InvalidInput(
            f"{where}: must be at most {MAX_OWNER_LENGTH} printable characters without spaces around them"
        )
    return name

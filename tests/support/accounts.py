"""A service with accounts, and people who have keys for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.support.gateway import Gateway, serving

API_KEYS: Mapping[str, Any] = {"auth": {"type": "api_key"}}


@dataclass
class Accounts:
    """The service, and the key of everybody who has one."""

    gateway: Gateway
    keys: dict[str, str] = field(default_factory=dict)

    async def add(self, owner: str, **options: Any) -> str:
        """A key for ``owner``, kept under that name."""
        key, _ = await self.gateway.core.services.keys.create(owner, **options)
        self.keys[owner] = key
        return key

    def http(self, name: str | None, **headers: str) -> httpx.AsyncClient:
        """As somebody who shows the key of ``name``; None: no key."""
        shown = {"x-api-key": self.keys[name]} if name is not None else {}
        return httpx.AsyncClient(base_url=self.gateway.api, timeout=30, headers={**shown, **headers})

    def client(self, name: str) -> LangGraphClient:
        """The official client."""
        return get_client(url=self.gateway.api, api_key=self.keys[name])


@asynccontextmanager
async def with_accounts(
    folder: Path, database_url: str, sections: Mapping[str, Any] | None = None, *, work: bool = True
) -> AsyncIterator[Accounts]:
    """Ann and bob have keys, and so has root, an administrator."""
    async with serving(folder, database_url, {**API_KEYS, **(sections or {})}, work=work) as gateway:
        accounts = Accounts(gateway)
        await accounts.add("ann")
        await accounts.add("bob")
        await accounts.add("root", admin=True)
        yield accounts

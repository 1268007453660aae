"""Who may use the service, and how much."""

from __future__ import annotations

from functools import cached_property
from typing import assert_never

from app.assembly.stores import Stores
from app.config import Settings
from app.errors import ConfigError
from app.services.accounts.limits import Limits
from app.services.accounts.service import Authenticator, KeyAccounts, NoAccounts
from app.services.accounts.tokens import token_accounts


class Accounts:
    """Raises ConfigError when tokens cannot be checked as the configuration says."""

    def __init__(self, settings: Settings, environ: dict[str, str], stores: Stores) -> None:
        self.keys = KeyAccounts(stores.accounts)
        self.authenticator = self._authenticator(settings, environ)
        self._settings = settings
        self._stores = stores

    @cached_property
    def limits(self) -> Limits:
        return Limits(self._settings.limits, self._stores.accounts)

    def _authenticator(self, settings: Settings, environ: dict[str, str]) -> Authenticator:
        match settings.auth.type:
            case "none":
                return NoAccounts()
            case "api_key":
                return self.keys
            case "jwt":
                if settings.auth.jwt is None:
                    raise ConfigError("auth.jwt: is required when auth.type is jwt")
                return token_accounts(settings.auth.jwt, environ, settings.config_dir)
            case never:
                assert_never(never)

"""The section ``webhooks``: whom runs may notify when they are over."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, SecretStr, field_validator

from app.config.models import looked_up
from app.config.values import PositiveNumber, PositiveWhole, Section, Text, refuse
from app.errors import ConfigError

SHORTEST_SECRET = 16
_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


class WebhookSettings(Section):
    """Nobody may be notified unless ``allowed_hosts`` says so: exact host names, ``*.example.org`` for all below a
    domain, and IP addresses or networks (``10.0.0.0/8``), which are the only way to a private address.

    A delivery is tried ``attempts`` times, the second time after ``backoff_s`` seconds, then twice as long and so on,
    at most an hour apart; each may take ``timeout_s`` seconds. With a ``secret`` ($NAME is read from the environment)
    each is signed. What became of a delivery is known for ``keep_days`` days.
    """

    allowed_hosts: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    secret: SecretStr | None = None
    timeout_s: PositiveNumber = 10.0
    attempts: PositiveWhole = 8
    backoff_s: PositiveNumber = 5.0
    keep_days: PositiveNumber = 7.0

    @field_validator("secret", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return SecretStr(value) if isinstance(value, str) else value

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        lowered = tuple(host.lower().strip("[]") for host in hosts)
        for host in lowered:
            if not _HOST.fullmatch(host) and not _is_network(host):
                raise refuse(
                    'must hold host names like "hooks.example.org" or "*.example.org", and addresses like '
                    f'"10.0.0.7" or "10.0.0.0/8"; {host!r} is none'
                )
        return lowered

    def key(self, environ: Mapping[str, str]) -> bytes | None:
        """The key of the signatures; ``$NAME`` is read from the environment. Raises ConfigError."""
        if self.secret is None:
            return None
        text = looked_up(self.secret, environ, "webhooks.secret")
        if len(text) < SHORTEST_SECRET:
            raise ConfigError(f"webhooks.secret: must have {SHORTEST_SECRET} characters or more")
        return text.encode()


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True

"""Whom a run may notify: nobody that the configuration does not name, and nothing inside the network by accident."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

import httpx

from app.errors import InvalidInput

MAX_URL = 2_000
MAX_PORT = 65_535
_SETTING = "webhooks.allowed_hosts"
_LOCALHOST = "localhost"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class WebhookRefused(Exception):
    """A name leads to an address that may not be notified."""


class WebhookPolicy:
    """``allowed`` are host names (``*.`` before one: all below it), addresses and networks."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._networks = [network for entry in allowed if (network := _network(entry))]
        self._names = [entry for entry in allowed if not _network(entry)]

    def check(self, url: str, where: str = "webhook") -> None:
        """Raises InvalidInput, which names the setting where it is a matter of that."""
        parsed = _parsed(url, where)
        host = host_of(parsed)
        if not self._knows(host):
            raise InvalidInput(
                f"{where}: this service notifies only hosts that its configuration names in {_SETTING}; "
                f"{host!r} is none of them"
            )
        if parsed.scheme == "http" and not _is_loopback(host):
            raise InvalidInput(f"{where}: must be an https URL; http is for this machine alone")

    async def addresses(self, url: httpx.URL) -> list[str]:
        """Where to connect. Raises WebhookRefused when the name leads anywhere that may not be notified, and OSError
        when it leads nowhere. Asked before each delivery: what a name leads to changes."""
        host = host_of(url)
        if not self._knows(host):
            raise WebhookRefused(f"{host} is not in {_SETTING} any more")
        found = await asyncio.get_running_loop().getaddrinfo(
            host, url.port or (443 if url.scheme == "https" else 80), type=socket.SOCK_STREAM
        )
        addresses = list(dict.fromkeys(str(item[4][0]).partition("%")[0] for item in found))
        for text in addresses:
            if not self.may_connect(host, ipaddress.ip_address(text)):
                raise WebhookRefused(
                    f"{host} leads to {text}, which is not a public address and not in {_SETTING}"
                )
        return addresses

    def _knows(self, host: str) -> bool:
        if address := _address(host):
            return self._in_networks(address)
        return any(
            host == name or (name.startswith("*.") and host.endswith(name[1:])) for name in self._names
        )

    def may_connect(self, host: str, address: Address) -> bool:
        """Whether ``host``, which leads to ``address``, may be connected to there."""
        real = _unwrapped(address)
        if self._in_networks(real) or self._in_networks(address):
            return True
        if host == _LOCALHOST:
            return real.is_loopback
        return real.is_global and not real.is_multicast

    def _in_networks(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._networks)


def host_of(url: httpx.URL) -> str:
    """The host as it is connected to: ASCII, lower case, without the dot of a complete name."""
    return url.raw_host.decode("ascii").lower().rstrip(".")


def _parsed(url: str, where: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        parsed = httpx.URL("")
    if (
        len(url) > MAX_URL
        or parsed.scheme not in ("http", "https")
        or not parsed.raw_host
        or (parsed.port or 0) > MAX_PORT
    ):
        raise InvalidInput(f"{where}: must be an https URL of at most {MAX_URL} characters")
    if parsed.userinfo:
        raise InvalidInput(f"{where}: must not hold a user or password")
    return parsed


def _network(entry: str) -> Network | None:
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return None


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address.is_loopback if address else host == _LOCALHOST


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that leads to it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address

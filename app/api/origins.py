"""Pages in a browser that are not ours: which of them may call, and under which names the service may be called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from app.errors import Forbidden

LOOPBACK_ORIGINS = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
_LOOPBACK = re.compile(LOOPBACK_ORIGINS)
_ANY = "*"


def refuse_foreign_host(headers: Mapping[str, str], allowed: Sequence[str]) -> None:
    """For a service without accounts. Raises Forbidden when it is called by a name that is not its own.

    A page may give its own name the address of this machine (DNS rebinding), and then the browser takes us for the page
    itself. An address of numbers cannot be given away like that.
    """
    host = headers.get("host")
    if not host or _ANY in allowed:
        return
    name = _host_name(host)
    if name in allowed or name == "localhost" or name.endswith(".localhost") or _is_address(name):
        return
    raise Forbidden(
        f"This service is not known as {name[:100]!r}; add the name to server.allowed_hosts",
        code="host_not_allowed",
    )


def refuse_foreign_origin(headers: Mapping[str, str], allowed: Sequence[str]) -> None:
    """Raises Forbidden when a page of an origin asks that is neither ours nor one of ``server.cors_origins``.

    A browser sends some requests for any page without asking us first; the page cannot read the answer, but what was
    asked for is done.
    """
    origin = headers.get("origin")
    if origin is None or _ANY in allowed or origin in allowed or _LOOPBACK.fullmatch(origin):
        return
    if (host := headers.get("host")) and urlsplit(origin).netloc.lower() == host.lower():
        return
    raise Forbidden(
        f"Pages of {origin[:100]!r} may not call; add the origin to server.cors_origins",
        code="origin_not_allowed",
    )


def _host_name(host: str) -> str:
    """Without the port, in lower case, an IPv6 address without its brackets."""
    name = host.lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True

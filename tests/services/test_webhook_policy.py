"""Whom a run may notify."""

from __future__ import annotations

from ipaddress import ip_address

import httpx
import pytest

from app.errors import InvalidInput
from app.services.webhooks.policy import WebhookPolicy, WebhookRefused


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        (["hooks.example.org"], "https://hooks.example.org/x"),
        (["hooks.example.org"], "https://HOOKS.example.org.:8443/x?y=1"),
        (["*.example.org"], "https://a.b.example.org/"),
        (["10.0.0.0/8"], "https://10.1.2.3/"),
        (["::1"], "http://[::1]:9000/"),
        (["localhost"], "http://localhost:9000/"),
        (["xn--mnchen-3ya.example"], "https://münchen.example/"),
    ],
)
def test_named_hosts_may_be_notified(allowed: list[str], url: str) -> None:
    WebhookPolicy(allowed).check(url)


@pytest.mark.parametrize(
    ("allowed", "url", "why"),
    [
        ([], "https://hooks.example.org/", "webhooks.allowed_hosts"),
        (["hooks.example.org"], "https://evil-hooks.example.org/", "webhooks.allowed_hosts"),
        (["hooks.example.org"], "https://hooks.example.org.evil.org/", "webhooks.allowed_hosts"),
        (["hooks.example.org"], "https://evil.org#hooks.example.org", "webhooks.allowed_hosts"),
        (["hooks.example.org"], "https://hooks.example.org@evil.org/", "user"),
        (["*.example.org"], "https://example.org/", "webhooks.allowed_hosts"),
        (["*.example.org"], "https://badexample.org/", "webhooks.allowed_hosts"),
        (["10.0.0.0/8"], "https://11.0.0.1/", "webhooks.allowed_hosts"),
        (["127.0.0.1"], "http://2130706433/", "webhooks.allowed_hosts"),
        (["hooks.example.org"], "http://hooks.example.org/", "https"),
        (["hooks.example.org"], "gopher://hooks.example.org/", "https"),
        (["hooks.example.org"], "https://hooks.example.org/" + "x" * 2000, "2000"),
        (["hooks.example.org"], "https://hooks.example.org:99999/", "https"),
    ],
)
def test_all_others_may_not(allowed: list[str], url: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        WebhookPolicy(allowed).check(url)


async def test_a_name_that_leads_inside_is_refused_unless_the_network_is_named() -> None:
    local = httpx.URL("https://localhost.localdomain/")
    for name in ("localhost.localdomain", "ip6-localhost", "localhost"):
        url = local.copy_with(host=name)
        try:
            addresses = await WebhookPolicy([name, "127.0.0.0/8", "::1"]).addresses(url)
        except OSError:
            continue
        assert set(addresses) <= {"127.0.0.1", "::1"}
        if name != "localhost":
            with pytest.raises(WebhookRefused, match="not a public address"):
                await WebhookPolicy([name]).addresses(url)


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "192.168.1.1"),
        *("::1", "::", "fe80::1", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1", "ff02::1"),
    ],
)
def test_no_address_that_is_not_public_is_reached_through_a_name(address: str) -> None:
    policy = WebhookPolicy(["hooks.example.org"])
    assert not policy.may_connect("hooks.example.org", ip_address(address))
    assert policy.may_connect("hooks.example.org", ip_address("93.184.216.34"))

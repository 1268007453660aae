"""The section webhooks, and what of the section runs belongs to stateless runs."""

from __future__ import annotations

from typing import Any

import pytest

from app.config import settings_from
from app.errors import ConfigError

SECRET = "0123456789abcdef"


def test_nobody_may_be_notified_unless_somebody_is_named() -> None:
    settings = settings_from({})
    assert settings.webhooks.allowed_hosts == ()
    assert settings.webhooks.key({}) is None
    assert settings.runs.stateless_grace_s == 30


def test_hosts_and_the_key_are_read() -> None:
    hosts = ["Hooks.Example.org", "*.example.com", "10.0.0.0/8", "[::1]"]
    settings = settings_from({"webhooks": {"allowed_hosts": hosts, "secret": "$KEY"}})
    assert settings.webhooks.allowed_hosts == ("hooks.example.org", "*.example.com", "10.0.0.0/8", "::1")
    assert settings.webhooks.key({"KEY": SECRET}) == SECRET.encode()


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"allowed_hosts": ["https://hooks.example.org"]}, "webhooks.allowed_hosts"),
        ({"allowed_hosts": ["hooks.example.org/x"]}, "webhooks.allowed_hosts"),
        ({"allowed_hosts": ["*"]}, "webhooks.allowed_hosts"),
        ({"allowed_hosts": "hooks.example.org"}, "webhooks.allowed_hosts"),
        ({"allowed_hosts": [""]}, "webhooks.allowed_hosts[0]"),
        ({"attempts": 0}, "webhooks.attempts: 0"),
        ({"timeout_s": 0}, "webhooks.timeout_s: 0"),
        ({"backoff_s": -1}, "webhooks.backoff_s: -1"),
        ({"allowed_host": []}, 'webhooks.allowed_host: unknown key (did you mean "allowed_hosts"'),
    ],
)
def test_a_wrong_value_is_named(section: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from({"webhooks": section})
    assert named in str(caught.value)


@pytest.mark.parametrize(("secret", "why"), [("$KEY", r"\$KEY .* not set"), ("short", "16 characters")])
def test_a_key_that_is_not_there_or_too_short_is_refused_at_the_start(secret: str, why: str) -> None:
    settings = settings_from({"webhooks": {"secret": secret}})
    with pytest.raises(ConfigError, match=why):
        settings.webhooks.key({})


def test_the_key_is_not_shown() -> None:
    assert SECRET not in repr(settings_from({"webhooks": {"secret": SECRET}}))

"""The sections ``secrets`` and ``retention``."""

from __future__ import annotations

import time
from typing import Any

import pytest

from app.config import settings_from
from app.errors import ConfigError
from app.redaction import SHAPES, Redactor


def test_by_default_known_kinds_are_replaced_and_originals_archived() -> None:
    secrets = settings_from({}).secrets
    assert (secrets.enabled, secrets.archive_originals) == (True, True)
    assert secrets.shapes == SHAPES


def test_switched_off_nothing_is_replaced() -> None:
    assert settings_from({"secrets": {"enabled": False}}).secrets.shapes == ()


def test_a_pattern_of_ones_own_is_used() -> None:
    patterns = [{"name": "acme", "regex": r"ACME-[0-9]+-[A-Z]+"}]
    shapes = settings_from({"secrets": {"patterns": patterns}}).secrets.shapes
    assert Redactor(shapes).text("take ACME-12-AB") == "take [secret:acme]"


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        ([{"name": "a", "regex": "ACME-([0-9"}], 'secrets.patterns[0].regex: "ACME-([0-9" is not allowed'),
        ([{"name": "a", "regex": ".*"}], 'secrets.patterns[0].regex: ".*" is not allowed: it must not match'),
        ([{"name": "A b", "regex": "x"}], 'secrets.patterns[0].name: "A b" is not allowed'),
        ([{"name": "a", "regex": 7}], "secrets.patterns[0].regex: 7 is not allowed"),
        ([{"name": "a"}], "secrets.patterns[0].regex: is required"),
        ([{"name": "a", "regex": "x", "flags": "i"}], "secrets.patterns[0].flags: unknown key"),
        ([{"name": "a", "regex": "x"}, {"name": "a", "regex": "y"}], "a is there more than once"),
        ("x", 'secrets.patterns: "x" is not allowed: it must be a list'),
    ],
)
def test_a_wrong_pattern_is_told_with_key_and_value(patterns: Any, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings_from({"secrets": {"patterns": patterns}})
    assert told in str(error.value)


@pytest.mark.parametrize("regex", [r"(a+)+$", r"tok_(\w+\s?)*x", r"key-(?:a|aa)+!", r"\w*\w*\w*\w*x"])
def test_a_pattern_that_may_take_for_ever_is_refused_at_once(regex: str) -> None:
    started = time.monotonic()
    with pytest.raises(ConfigError, match="must not take this long"):
        settings_from({"secrets": {"patterns": [{"name": "slow", "regex": regex}]}})
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "regex", [r"corp_[a-z]+_[0-9]+", r"\bAC[0-9a-f]{32}\b", r"(?i)x-token:\s*(?P<secret>\S+)"]
)
def test_ordinary_patterns_are_taken(regex: str) -> None:
    assert settings_from({"secrets": {"patterns": [{"name": "own", "regex": regex}]}}).secrets.patterns


def test_by_default_nothing_is_removed_by_its_age() -> None:
    assert not settings_from({}).retention.wanted


@pytest.mark.parametrize("key", ["prune_checkpoints_after_days", "delete_threads_after_days", "interval_s"])
@pytest.mark.parametrize("value", [0, -1, "30"])
def test_an_age_is_a_number_above_zero(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"retention\.{key}"):
        settings_from({"retention": {key: value}})

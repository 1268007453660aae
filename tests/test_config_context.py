"""The sections ``dynamic_context`` and ``memory``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.config import settings_from
from app.errors import ConfigError

DEERFLOW = {
    "enabled": True,
    "mode": "middleware",
    "storage_path": "memory.json",
    "debounce_seconds": 30,
    "model_name": None,
    "max_facts": 50,
    "fact_confidence_threshold": 0.7,
    "injection_enabled": True,
    "max_injection_tokens": 2000,
    "token_counting": "char",
    "backend_config": {"anything": 1},
}


def test_the_date_is_told_and_nothing_is_remembered_by_default() -> None:
    settings = settings_from({})
    assert settings.dynamic_context.enabled
    assert settings.dynamic_context.zone is UTC
    assert not settings.memory.enabled


@pytest.mark.parametrize(
    ("name", "day"), [("utc", 5), ("UTC", 5), ("Asia/Tokyo", 6), ("America/New_York", 5)]
)
def test_a_time_zone_says_which_day_it_is(name: str, day: int) -> None:
    zone = settings_from({"dynamic_context": {"timezone": name}}).dynamic_context.zone
    assert datetime(2026, 1, 5, 20, tzinfo=UTC).astimezone(zone).day == day


def test_the_memory_section_of_deerflow_loads_and_switches_it_on() -> None:
    settings = settings_from({"memory": DEERFLOW})
    assert settings.memory.enabled
    assert settings.memory.max_facts == 50
    warning = next(text for text in settings.warnings if "DeerFlow" in text)
    for key in ("debounce_seconds", "injection_enabled", "backend_config", "storage_path"):
        assert f"memory.{key}" in warning


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"dynamic_context": {"timezone": "Europe/Berln"}},
        'dynamic_context.timezone: "Europe/Berln" is not allowed',
    ),
    ({"dynamic_context": {"timezone": "Europe"}}, "dynamic_context.timezone"),
    ({"dynamic_context": {"timezone": "../../etc/passwd"}}, "dynamic_context.timezone"),
    ({"dynamic_context": {"timezone": 1}}, "dynamic_context.timezone"),
    ({"dynamic_context": {"zone": "UTC"}}, 'did you mean "timezone"?'),
    ({"memory": {"enabled": "yes"}}, "memory.enabled"),
    ({"memory": {"max_facts": 0}}, "memory.max_facts"),
    ({"memory": {"debounce_s": -1}}, "memory.debounce_s"),
    ({"memory": {"max_fact": 5}}, 'did you mean "max_facts"?'),
    ({"memory": {"model_name": "nobody"}}, "memory.model_name"),
]


@pytest.mark.parametrize(("document", "said"), WRONG, ids=[str(row[0])[:50] for row in WRONG])
def test_a_wrong_value_is_named(document: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(document)
    assert said in str(caught.value)

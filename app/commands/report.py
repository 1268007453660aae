"""What a process says when it has started: where it listens, what it stores in, who answers, when it compacts."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from app.compaction.types import ContextSize
from app.config import SummarizationSettings
from app.main import Core

_ACCOUNTS = {
    "none": "none: whoever reaches this address owns everything",
    "api_key": "by API key (python -m app keys)",
    "jwt": "by JSON Web Token",
}
_UNITS = {"tokens": "{:g} tokens", "messages": "{:g} messages", "fraction": "{:.0%} of the context window"}


def startup_report(core: Core, address: Sequence[Any] | None, name: str = "Threadkeep") -> str:
    """A few lines for people. ``address`` is the listening socket's name, None for a worker that does not listen."""
    warnings = (*core.settings.warnings, *core.models.warnings, *_triggers(core), *_exposure(core, address))
    where = f"{name} is ready at {_url(address)}" if address else f"{name} is ready"
    return "\n".join(
        [
            where,
            f"  database    {core.database.label}",
            f"  models      {_models(core)}",
            f"  accounts    {_ACCOUNTS[core.settings.auth.type]}",
            f"  compaction  {compaction_sentence(core.settings.summarization)}",
            *(f"  warning     {warning}" for warning in warnings),
        ]
    )


def compaction_sentence(settings: SummarizationSettings) -> str:
    """When threads will be compacted, how much stays, and who summarises."""
    if not settings.enabled:
        return "off (summarization.enabled is false)"
    writer = settings.model_name or "the model of the run"
    kept = f"keeps {_size(settings.kept)}; summaries by {writer}"
    if not settings.trigger:
        return f"only by hand (no trigger is configured); {kept}"
    return f"at {' or '.join(_size(clause.size) for clause in settings.trigger)}; {kept}"


def _size(size: ContextSize) -> str:
    return _UNITS[size.kind].format(size.value)


def _models(core: Core) -> str:
    described = [
        f"{info.name}{' (default)' if info.name == core.models.default else ''}"
        if info.available
        else f"{info.name} [unavailable: {info.reason}]"
        for info in core.models.describe()
    ]
    return ", ".join(described)


def _triggers(core: Core) -> list[str]:
    if not core.settings.summarization.enabled:
        return []
    return [
        f'summarization with model "{info.name}": {warning}'
        for info in core.models.describe()
        if info.available
        for warning in core.services.contexts.warnings(info.name)
    ]


def _exposure(core: Core, address: Sequence[Any] | None) -> list[str]:
    if address is None or ip_address(address[0]).is_loopback or core.settings.auth.type != "none":
        return []
    return ["there are no accounts: whoever can reach this address can read and change every thread"]


def _url(address: Sequence[Any]) -> str:
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"http://{host}:{address[1]}"

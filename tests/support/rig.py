"""A served application whose models are the provider stand-in: what compaction is tested on, end to end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.answers import Answer, Behaviour, Reply, Request
from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone
from tests.support.provider import Provider, running_provider
from tests.support.threads import SUMMARY, is_summary_call, stand_in

SMALL = {
    "trigger": {"type": "tokens", "value": 3000},
    "keep": {"type": "messages", "value": 4},
    "max_summary_tokens": 300,
    "trim_tokens_to_summarize": 12000,
}
"""Fires at about two thousand tokens of messages: the system prompt and the tools are a thousand."""

PLAIN = {
    "title": {"enabled": False},
    "agents": [
        {"name": "agent", "tools": ["read_file", "write_file", "edit_file", "list_files", "search_files"]}
    ],
}
"""No calls but those of the agent and of compaction, and requests of a size that new tools do not change."""

UNLIMITED = 10**9


@dataclass
class Rig:
    """``url`` is the database's. ``mark`` forgets earlier requests. Summary calls get what ``summarizer`` says for
    the model, all others what ``agent`` says; by default both get a fine answer."""

    gateway: Gateway
    provider: Provider
    url: str
    sections: Mapping[str, Any]
    _summaries: dict[str, Behaviour] = field(default_factory=dict)
    _agent: Behaviour = field(default_factory=Reply)
    _seen: int = 0

    def summarizer(self, behaviour: Behaviour, model: str = "main") -> None:
        self._summaries[model] = behaviour

    def agent(self, behaviour: Behaviour) -> None:
        self._agent = behaviour

    def replica(self, folder: Path) -> AbstractAsyncContextManager[Gateway]:
        """Another gateway with the same configuration on the same database."""
        return serving(folder, self.url, self.sections)

    def reset(self) -> None:
        """Fine answers again, no limit, and no requests."""
        self.provider.limit(UNLIMITED)
        self._summaries.clear()
        self._agent = Reply()
        self.mark()

    def mark(self) -> None:
        self._seen = len(self.provider.chats)

    def summary_calls(self, model: str | None = None) -> list[Request]:
        return [
            chat
            for chat in self.provider.chats[self._seen :]
            if is_summary_call(chat) and model in (None, chat.body["model"])
        ]

    def agent_calls(self) -> list[Request]:
        return [chat for chat in self.provider.chats[self._seen :] if not is_summary_call(chat)]

    def summarize(self, request: Request) -> Answer:
        return _answer(self._summaries.get(request.body["model"], Reply(SUMMARY)), request)

    def answer(self, request: Request) -> Answer:
        return _answer(self._agent, request)


def _answer(behaviour: Behaviour, request: Request) -> Answer:
    return behaviour(request) if callable(behaviour) else behaviour


@asynccontextmanager
async def rigged(
    folder: Path,
    template: str,
    summarization: Mapping[str, Any],
    models: Sequence[str | Mapping[str, Any]] = ("main",),
    retries: int = 2,
    model: Mapping[str, Any] | None = None,
    **sections: Any,
) -> AsyncIterator[Rig]:
    """A rig on a database of its own. Each name in ``models`` is the stand-in; the first model is the default.
    ``retries`` are those of the SDK, which the agent's own calls have; ``model`` are settings of every stand-in."""
    with running_provider() as provider:
        own = {"max_retries": retries, **(model or {})}
        listed = [stand_in(name, provider, **own) if isinstance(name, str) else name for name in models]
        given = {"models": listed, "summarization": dict(summarization), **PLAIN, **sections}
        async with clone(template) as url, serving(folder, url, given) as gateway:
            rig = Rig(gateway, provider, url, given)
            provider.when(is_summary_call, rig.summarize)
            provider.always(rig.answer)
            yield rig


def shared_rig(
    name: str, summarization: Mapping[str, Any], *models: str, modes: Sequence[str] = (), **sections: Any
) -> Any:
    """The fixture ``served`` of a module: one rig for its tests, or one for each of these checkpoint ``modes``."""

    @pytest_asyncio.fixture(scope="module", loop_scope="module", params=modes or None)
    async def served(
        tmp_path_factory: pytest.TempPathFactory, database_template: str, request: pytest.FixtureRequest
    ) -> AsyncIterator[Rig]:
        given = {**sections, **({"checkpoint_mode": request.param} if modes else {})}
        folder = tmp_path_factory.mktemp(name)
        async with rigged(folder, database_template, summarization, models or ("main",), **given) as rig:
            yield rig

    return served


@pytest.fixture
def rig(served: Rig) -> Rig:
    """The rig of the module, as if it were new."""
    served.reset()
    return served

"""What a client asks of a run, and how it becomes a call of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Send

from app.persistence.checkpoints import ATTEMPT_KEY
from app.persistence.runs import Run
from app.services.accounts.service import NOBODY
from app.services.runs.graph_events import GraphCall
from app.services.threads.messages import read_messages

OWNER_KEY = "owner"
"""Where a run keeps whose it is."""

MultitaskStrategy = Literal["reject", "enqueue", "interrupt", "rollback"]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The body of a run, validated. ``input`` None without ``command`` continues the thread where it stands. A
    ``temporary`` thread is removed when its run is over; ``recorded``: the thread's stream shows all of the run, not
    only what its own stream was asked for."""

    assistant_id: str
    input: Any = None
    command: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    stream_modes: Sequence[str] = ("values",)
    subgraphs: bool = False
    checkpoint: Mapping[str, Any] | None = None
    interrupt_before: Any = None
    interrupt_after: Any = None
    multitask_strategy: MultitaskStrategy = "enqueue"
    create_thread: bool = False
    cancel_on_disconnect: bool = False
    durability: str | None = None
    after_seconds: float = 0.0
    webhook: str | None = None
    temporary: bool = False
    recorded: bool = False

    @property
    def model_name(self) -> str | None:
        """The model the client chose for this run, from ``context`` or ``config.configurable``."""
        chosen = (self.context or {}).get("model_name")
        return chosen or (self.config.get("configurable") or {}).get("model_name")

    def to_kwargs(self, graph_name: str, model_name: str) -> dict[str, Any]:
        """What is stored with the run and survives a restart."""
        return {**asdict(self), "graph_name": graph_name, "model_name": model_name}


def call_of(run: Run, *, resumed: bool) -> GraphCall:
    """The graph call of a run. ``resumed``: a worker before this one already put the input into the thread, so go on
    from the newest checkpoint."""
    kwargs = run.kwargs
    return GraphCall(
        input=None if resumed else _input(kwargs),
        config=_config(run, resumed=resumed),
        context=kwargs["context"],
        stream_modes=kwargs["stream_modes"],
        subgraphs=kwargs["subgraphs"],
        interrupt_before=kwargs["interrupt_before"],
        interrupt_after=kwargs["interrupt_after"],
        durability=kwargs["durability"],
        recorded=bool(kwargs.get("recorded")),
    )


def auth_user(owner: str) -> dict[str, Any]:
    """Whose run it is, under the names that LangGraph's own server gives to graphs. No client can write them."""
    user = {"identity": owner, "is_authenticated": owner != NOBODY, "display_name": owner, "permissions": []}
    return {"langgraph_auth_user": user, "langgraph_auth_user_id": owner}


def _input(kwargs: Mapping[str, Any]) -> Any:
    command = kwargs["command"]
    if not command:
        return _values(kwargs["input"])
    goto = command.get("goto") or ()
    return Command(
        resume=command.get("resume"),
        update=_values(command.get("update")),
        goto=[_destination(item) for item in (goto if isinstance(goto, list) else [goto])] if goto else (),
    )


def _values(stored: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Stored values with message objects again: what was cleaned and stored as JSON loses nothing that way."""
    if stored is None:
        return None
    return {
        name: read_messages(value, f"input.{name}") if name == "messages" else value
        for name, value in stored.items()
    }


def _destination(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    given = item.get("input")
    return Send(item["node"], _values(given) if isinstance(given, dict) else given)


def _config(run: Run, *, resumed: bool) -> RunnableConfig:
    given = run.kwargs["config"]
    configurable = {**(given.get("configurable") or {}), "thread_id": run.thread_id}
    checkpoint = run.kwargs["checkpoint"]
    if checkpoint and not resumed:
        configurable |= checkpoint
    owner = run.kwargs.get(OWNER_KEY, NOBODY)
    identity = {
        "run_id": run.run_id,
        "graph_id": run.kwargs["graph_name"],
        "assistant_id": run.assistant_id,
        ATTEMPT_KEY: run.attempt,
    }
    config: dict[str, Any] = {
        "configurable": configurable | identity | auth_user(owner),
        "metadata": {**run.metadata, **identity},
        "run_id": run.run_id,
    }
    for name in ("recursion_limit", "tags", "max_concurrency", "run_name"):
        if given.get(name) is not None:
            config[name] = given[name]
    return config  # type: ignore[return-value]

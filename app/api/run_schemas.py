"""Bodies and queries of the run routes, as official clients send them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.errors import BadRequest, InvalidInput
from app.services.problems import validation_detail
from app.services.runs.graph_events import STREAM_MODES, StreamMode
from app.services.runs.request import RunRequest
from app.services.threads.sanitize import refuse_auth, refuse_reserved

_CHECKPOINT_KEYS = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
RECURSION_LIMIT_MAX = 10_000


def listed(value: Any) -> Any:
    """One mode, a list, a repeated key or a JSON array: all are a list. What is none of them is left as it is."""
    match value:
        case None | "":
            return []
        case str() if value.startswith("["):
            return _json_or_same(value)
        case str():
            return [value]
        case [""]:
            return []
        case [str() as only] if only.startswith("["):
            return _json_or_same(only)
        case _:
            return value


def _json_or_same(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [text]


StreamModes = Annotated[list[StreamMode], BeforeValidator(listed)]


class RunConfig(BaseModel):
    """``config`` of a run. Unknown keys of ``configurable`` are the graph's own."""

    model_config = ConfigDict(extra="forbid")

    configurable: dict[str, Any] | None = None
    recursion_limit: Annotated[int, Field(ge=1, le=RECURSION_LIMIT_MAX)] | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    run_name: str | None = None


class RunSend(BaseModel):
    """A node to go to with an input of its own."""

    model_config = ConfigDict(extra="forbid")

    node: str
    input: Any = None


class RunCommand(BaseModel):
    """``command`` of a run: answer an interrupt, update the state, go to a node."""

    model_config = ConfigDict(extra="forbid")

    resume: Any = None
    update: dict[str, Any] | list[tuple[str, Any]] | None = None
    goto: str | RunSend | list[str | RunSend] | None = None


class RunCheckpoint(BaseModel):
    """``checkpoint`` of a run, or the same keys of ``config.configurable``: where it starts."""

    model_config = ConfigDict(extra="forbid")

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    checkpoint_map: dict[str, Any] | None = None


class RunBody(BaseModel):
    """The body that starts a run on a thread.

    Accepted without effect, because the service has nothing that they would switch: ``feedback_keys,
    langsmith_tracer, checkpoint_during, strict_resume, stream_resumable`` (every stream can be resumed) and, on a
    thread that is there, ``on_completion``.
    """

    model_config = ConfigDict(extra="forbid")

    assistant_id: str
    input: dict[str, Any] | None = None
    command: RunCommand | None = None
    config: RunConfig | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    stream_mode: StreamModes = Field(default_factory=list)
    stream_subgraphs: bool | None = None
    checkpoint: RunCheckpoint | None = None
    checkpoint_id: str | None = None
    interrupt_before: Literal["*"] | list[str] | None = None
    interrupt_after: Literal["*"] | list[str] | None = None
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] | None = None
    if_not_exists: Literal["reject", "create"] | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    webhook: Annotated[str, Field(min_length=1)] | None = None
    after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    stream_resumable: bool | None = None
    feedback_keys: Any = None
    langsmith_tracer: Any = None
    checkpoint_during: Any = None
    strict_resume: Any = None

    def request(self, thread_id: str) -> RunRequest:
        """The run that the body asks for. Raises BadRequest and InvalidInput for what contradicts itself."""
        config = self.config or RunConfig()
        configurable = _configurable(config.configurable or {}, thread_id)
        checkpoint = _checkpoint(configurable, self.checkpoint, self.checkpoint_id, thread_id)
        refuse_reserved(self.context or {}, "body.context")
        refuse_auth({**(config.metadata or {}), **(self.metadata or {})}, "body.metadata")
        if configurable and self.context:
            raise BadRequest("config.configurable and context cannot both be given; use context")
        if self.command is not None and self.input is not None:
            raise BadRequest("input and command cannot both be given")
        return RunRequest(
            assistant_id=self.assistant_id,
            input=self.input,
            command=_command(self.command),
            config={**config.model_dump(exclude_none=True), "configurable": configurable},
            context=self.context,
            metadata={**(config.metadata or {}), **(self.metadata or {})},
            stream_modes=self.stream_mode or ["values"],
            subgraphs=bool(self.stream_subgraphs),
            checkpoint=checkpoint or None,
            interrupt_before=self.interrupt_before,
            interrupt_after=self.interrupt_after,
            multitask_strategy=self.multitask_strategy or "enqueue",
            create_thread=self.if_not_exists == "create",
            cancel_on_disconnect=self.on_disconnect == "cancel",
            durability=self.durability,
            after_seconds=self.after_seconds or 0.0,
            webhook=self.webhook,
        )


class StatelessBody(RunBody):
    """The body of a run without a thread: one is made for it, and removed when it is over unless ``on_completion`` is
    ``keep``. With ``thread_id`` it is a run on that thread."""

    thread_id: str | None = None

    def stateless(self, thread_id: str) -> RunRequest:
        """The run, on a thread that is made for it. Raises BadRequest and InvalidInput."""
        if "thread_id" in ((self.config and self.config.configurable) or {}):
            raise InvalidInput(
                "body.config.configurable.thread_id: a run without a thread gets one of its own; "
                "give thread_id, or post to /threads/{thread_id}/runs"
            )
        return replace(self.request(thread_id), create_thread=True, temporary=self.on_completion != "keep")


class BulkCancel(BaseModel):
    """Which runs to cancel: those of ``run_ids``, or all with a ``status``; on one thread, if it is given."""

    model_config = ConfigDict(extra="forbid")

    thread_id: str | None = None
    run_ids: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None
    status: Literal["pending", "running", "all"] | None = None


def check_stream_modes(modes: list[str] | None) -> list[str]:
    """Modes of a query, as a list. Raises InvalidInput for an unknown one."""
    asked = listed(modes)
    unknown = [mode for mode in asked if mode not in STREAM_MODES]
    if unknown:
        raise InvalidInput(
            f"query.stream_mode: there is no mode {unknown[0]!r}; known: {', '.join(STREAM_MODES)}"
        )
    return asked


def _command(given: RunCommand | None) -> dict[str, Any] | None:
    """What is not null of it; None when that is nothing. Raises InvalidInput when it would change nothing."""
    command = given.model_dump(exclude_unset=True, exclude_none=True) if given else {}
    if not command:
        return None
    if isinstance(pairs := command.get("update"), list):
        command["update"] = dict(pairs)
        if len(command["update"]) < len(pairs):
            raise InvalidInput("body.command.update: names a key of the state twice")
    if "resume" not in command and not command.get("update") and not command.get("goto"):
        raise InvalidInput("body.command: must give resume, goto, or an update that is not empty")
    return command


def _configurable(given: dict[str, Any], thread_id: str) -> dict[str, Any]:
    _same_thread(given, thread_id, "body.config.configurable")
    refuse_reserved(given, "body.config.configurable")
    return {key: value for key, value in given.items() if key != "thread_id"}


def _same_thread(given: Mapping[str, Any], thread_id: str, where: str) -> None:
    named = given.get("thread_id")
    if named is not None and named != thread_id:
        raise InvalidInput(f"{where}.thread_id: {named!r} is not the thread of the path, {thread_id!r}")


def _checkpoint(
    configurable: dict[str, Any], checkpoint: RunCheckpoint | None, checkpoint_id: str | None, thread_id: str
) -> dict[str, Any]:
    """Where the run starts: ``checkpoint``, ``checkpoint_id`` or the same keys of ``configurable``, taken out."""
    taken = {key: configurable.pop(key) for key in _CHECKPOINT_KEYS if key in configurable}
    try:
        chosen = RunCheckpoint(**taken).model_dump(exclude_none=True)
    except ValidationError as error:
        raise InvalidInput(validation_detail(error.errors(), "body.config.configurable")) from None
    given = checkpoint.model_dump(exclude_none=True) if checkpoint else {}
    _same_thread(given, thread_id, "body.checkpoint")
    chosen |= {key: value for key, value in given.items() if key != "thread_id"}
    return {**chosen, "checkpoint_id": checkpoint_id} if checkpoint_id else chosen

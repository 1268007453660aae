"""Commands to a thread (v2): start a run, answer an interrupt, ask what is going on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.deps import Injected, Owner, Services, ThreadId
from app.api.responses import Json
from app.api.run_schemas import RunBody
from app.errors import BadRequest, Conflict, InvalidInput, NotFound, ThreadkeepError
from app.persistence.runs import Run
from app.services.problems import validation_detail

router = APIRouter(tags=["thread streams"])

# What the run's own stream (v1) shows of it.
SHOWN_MODES = ("values", "updates", "messages-tuple", "custom")


class Command(BaseModel):
    """What clients send: ``id`` comes back with the answer."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[int, Field(ge=0)]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)


class RunStart(BaseModel):
    """``run.start``. Accepted without effect: ``langsmith_tracer``. Clients send ``multitaskStrategy`` as well, older
    ones ``forkFrom`` for the checkpoint to start from."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    assistant_id: str
    input: Any = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    multitask_strategy: str | None = None
    multitask_strategy_too: Annotated[str | None, Field(alias="multitaskStrategy")] = None
    fork_from: Annotated[str | None, Field(alias="forkFrom")] = None
    langsmith_tracer: Any = None

    def body(self) -> dict[str, Any]:
        return {
            "assistant_id": self.assistant_id,
            "input": self.input,
            "config": self.config,
            "context": self.context,
            "metadata": self.metadata,
            "checkpoint_id": self.fork_from,
            "multitask_strategy": self.multitask_strategy or self.multitask_strategy_too,
            "if_not_exists": "create",
        }


class Response(BaseModel):
    """The answer to one interrupt. The namespace is where it was asked; its id says enough."""

    model_config = ConfigDict(extra="forbid")

    interrupt_id: str
    response: Any = None
    namespace: list[str] | None = None


class InputRespond(BaseModel):
    """``input.respond``: one answer, or several in ``responses``. An answer to what does not wait is always refused,
    with ``strict_resume`` and without."""

    model_config = ConfigDict(extra="forbid")

    interrupt_id: str | None = None
    response: Any = None
    namespace: list[str] | None = None
    responses: Annotated[list[Response], Field(min_length=1)] | None = None
    update: Any = None
    goto: Any = None
    config: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    strict_resume: bool | None = None

    def answers(self) -> dict[str, Any]:
        """Raises InvalidInput."""
        if self.responses is not None:
            return {answer.interrupt_id: answer.response for answer in self.responses}
        if self.interrupt_id is None:
            raise InvalidInput("params.interrupt_id: must be given")
        return {self.interrupt_id: self.response}


class GetTree(BaseModel):
    """``agent.getTree``: of a run, or of the newest one."""

    model_config = ConfigDict(extra="forbid")

    run_id: str | None = None


class Refused(ThreadkeepError):
    """A command that was understood and is not done. ``code`` is one of the protocol."""


@router.post("/threads/{thread_id}/commands")
async def command(thread_id: ThreadId, body: Command, owner: Owner, injected: Injected) -> Json:
    """``run.start``, ``input.respond`` and ``agent.getTree``. A command that is refused is answered by its error."""
    return Json(await answer(injected, owner, thread_id, body))


async def answer(injected: Services, owner: str, thread_id: str, given: Command) -> dict[str, Any]:
    """The answer to a command. Raises what is no fault of the command: an unknown thread, a limit, an outage."""
    try:
        perform = _COMMANDS.get(given.method)
        if perform is None:
            known = ", ".join(_COMMANDS)
            raise Refused(f"There is no command {given.method!r}; known: {known}", code="unknown_command")
        applied = await injected.thread_events.applied_through(thread_id)
        result = await perform(injected, owner, thread_id, given.params)
    except Refused as error:
        return refusal(given.id, error.code, error.detail)
    except ValidationError as error:
        return refusal(given.id, "invalid_argument", validation_detail(error.errors(), "params"))
    except (InvalidInput, BadRequest, Conflict) as error:
        return refusal(given.id, "invalid_argument", error.detail)
    meta = {"thread_id": thread_id, "applied_through_seq": applied}
    return {"type": "success", "id": given.id, "result": result, "meta": meta}


def refusal(command_id: int | None, code: str, message: str) -> dict[str, Any]:
    """The error of a command, or with no id of the connection."""
    return {"type": "error", "id": command_id, "error": code, "message": message}


async def _start(injected: Services, owner: str, thread_id: str, params: Mapping[str, Any]) -> dict[str, Any]:
    given = RunStart.model_validate(params)
    try:
        injected.graphs.resolve(given.assistant_id)
    except NotFound as error:
        raise Refused(error.detail, code="invalid_argument") from None
    return {"run_id": (await _run(injected, owner, thread_id, given.body())).run_id}


async def _respond(
    injected: Services, owner: str, thread_id: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    given = InputRespond.model_validate(params)
    answers = given.answers()
    thread = await injected.threads.get(owner, thread_id)
    if thread.graph_name is None:
        raise Refused("No run of this thread has asked anything", code="no_such_run")
    waiting = {interrupt.get("id") for task in thread.interrupts.values() for interrupt in task}
    # While a run goes on, the row says what waited before it.
    if thread.status != "busy" and (unknown := answers.keys() - waiting):
        raise Refused(f"Nothing waits for an answer to {sorted(unknown)[0]!r}", code="no_such_interrupt")
    command = {"resume": answers, "update": given.update, "goto": given.goto}
    body = {
        "assistant_id": thread.graph_name,
        "command": {name: value for name, value in command.items() if value is not None},
        "config": given.config,
        "metadata": given.metadata,
    }
    return {"run_id": (await _run(injected, owner, thread_id, body)).run_id}


async def _run(injected: Services, owner: str, thread_id: str, body: Mapping[str, Any]) -> Run:
    request = RunBody.model_validate(body).request(thread_id)
    shown = replace(request, stream_modes=SHOWN_MODES, subgraphs=True, recorded=True)
    return await injected.runs.start(thread_id, owner, shown)


async def _tree(injected: Services, owner: str, thread_id: str, params: Mapping[str, Any]) -> dict[str, Any]:
    given = GetTree.model_validate(params)
    await injected.threads.get(owner, thread_id)
    tree = await injected.thread_events.tree(thread_id, given.run_id)
    if tree is None:
        raise Refused("There is no such run on this thread", code="no_such_run")
    return {"tree": tree}


_Perform = Callable[[Services, str, str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
_COMMANDS: Mapping[str, _Perform] = {"run.start": _start, "input.respond": _respond, "agent.getTree": _tree}

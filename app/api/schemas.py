"""Bodies and queries of threads and their state, with every field that official clients send.

Accepted without effect: ``ttl`` (threads do not expire) and ``include`` (it can only ask for the ttl).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from app.api.extract import check_extract_path
from app.errors import InvalidInput
from app.persistence.threads import SortBy, SortOrder, ThreadStatus
from app.services.threads.state import NodeWrite, Place

MAX_PAGE = 1000
MAX_OFFSET = 2**31
MAX_EXTRACTED = 10
MAX_ID_LENGTH = 256
VALUES_KEY = "values."

ThreadField = Literal[
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "context",
    "status",
    "values",
    "interrupts",
    "error",
]
_StateField = Literal[
    "values",
    "next",
    "tasks",
    "checkpoint",
    "metadata",
    "created_at",
    "parent_checkpoint",
    "interrupts",
    "checkpoint_id",
    "parent_checkpoint_id",
]
STATE_FIELDS: tuple[str, ...] = get_args(_StateField)


def _state_field(name: str) -> str:
    if name in STATE_FIELDS or (name.startswith(VALUES_KEY) and name != VALUES_KEY):
        return name
    raise ValueError(f"must be {VALUES_KEY}<key> or one of {', '.join(STATE_FIELDS)}")


def _split(value: Any) -> Any:
    """A query may repeat a key or join the items with commas."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [part for item in value for part in item.split(",")]
    return value


def _object_or_objects(value: Any) -> Any:
    several = value if isinstance(value, list) else [value]
    if value is None or all(isinstance(item, dict) for item in several):
        return value
    raise ValueError("must be an object, a list of objects or null")


def _before(value: Any) -> Any:
    """A checkpoint id, a checkpoint, or a config that names one."""
    match value:
        case str():
            return {"checkpoint_id": value}
        case {"configurable": dict() as configurable}:
            return {name: configurable[name] for name in CheckpointBody.model_fields if name in configurable}
        case _:
            return value


JsonObject = dict[str, Any]
Id = Annotated[str, Field(max_length=MAX_ID_LENGTH)]
PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE)]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]
StateField = Annotated[str, AfterValidator(_state_field)]


class Body(BaseModel):
    """A body: no unknown fields, no wrong types that happen to be convertible."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Parameters(BaseModel):
    """A query: no unknown names; its values are texts and converted."""

    model_config = ConfigDict(extra="forbid")


class TtlBody(Body):
    ttl: float | None = None
    strategy: Literal["delete", "keep_latest"] | None = None


class CheckpointBody(Body):
    """A point in a thread's history. Without an id: the newest, of the namespace."""

    thread_id: str | None = None
    checkpoint_ns: Id | None = None
    checkpoint_id: Id | None = None
    checkpoint_map: JsonObject | None = None

    def place(self, thread_id: str, where: str) -> Place:
        """Raises InvalidInput for a checkpoint of another thread."""
        if self.thread_id is not None and self.thread_id.lower() != thread_id.lower():
            raise InvalidInput(f"{where}.thread_id: {self.thread_id!r} is not the thread of the path")
        return Place(self.checkpoint_id, self.checkpoint_ns or "", self.checkpoint_map)


class BeforeBody(CheckpointBody):
    checkpoint_id: Id


class SuperstepCommand(Body):
    """What a node that answered with a command had written; where it went next follows from the next step."""

    update: JsonObject | None = None
    resume: Any = None
    goto: Any = None


class SuperstepUpdateBody(Body):
    values: JsonObject | None = None
    command: SuperstepCommand | None = None
    as_node: str

    def write(self) -> NodeWrite:
        update = self.command.update if self.command else None
        return NodeWrite(self.values if self.values is not None else update, self.as_node)


class SuperstepBody(Body):
    updates: Annotated[list[SuperstepUpdateBody], Field(min_length=1)]


class ThreadCreate(Body):
    thread_id: str | None = None
    metadata: JsonObject | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    supersteps: Annotated[list[SuperstepBody], Field(max_length=MAX_PAGE)] | None = None
    ttl: float | TtlBody | None = None


class ThreadPatch(Body):
    metadata: JsonObject | None = None
    ttl: float | TtlBody | None = None


class ThreadCount(Body):
    metadata: JsonObject | None = None
    values: JsonObject | None = None
    status: ThreadStatus | None = None


class ThreadSearch(ThreadCount):
    ids: list[str] | None = None
    limit: PageSize = 10
    offset: Offset = 0
    sort_by: SortBy | None = None
    sort_order: SortOrder | None = None
    select: list[ThreadField] | None = None
    extract: (
        Annotated[
            dict[str, Annotated[str, AfterValidator(check_extract_path)]], Field(max_length=MAX_EXTRACTED)
        ]
        | None
    ) = None


class ThreadQuery(Parameters):
    include: Annotated[list[Literal["ttl"]], BeforeValidator(_split)] = []


class StateQuery(Parameters):
    subgraphs: bool = False
    select: Annotated[list[StateField], BeforeValidator(_split)] = []


class StateAtCheckpoint(Body):
    checkpoint: CheckpointBody
    subgraphs: bool = False
    select: list[StateField] | None = None


class StateUpdateBody(Body):
    values: Annotated[Any, AfterValidator(_object_or_objects)] = None
    as_node: str | None = None
    checkpoint: CheckpointBody | None = None
    checkpoint_id: Id | None = None


class StatePatch(Body):
    metadata: JsonObject | None = None


class HistoryBody(Body):
    limit: PageSize = 10
    before: Annotated[BeforeBody | None, BeforeValidator(_before)] = None
    metadata: JsonObject | None = None
    checkpoint: CheckpointBody | None = None
    select: list[StateField] | None = None


class HistoryQuery(Parameters):
    limit: PageSize = 10
    before: Id | None = None
    select: Annotated[list[StateField], BeforeValidator(_split)] = []


AssistantSortBy = Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"]


class AssistantCount(Body):
    metadata: JsonObject | None = None
    graph_id: str | None = None
    name: str | None = None


class AssistantSearch(AssistantCount):
    limit: PageSize = 10
    offset: Offset = 0
    sort_by: AssistantSortBy | None = None
    sort_order: SortOrder | None = None
    select: list[str] | None = None

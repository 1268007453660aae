"""What the hooks tell the compactor about the step they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import ExecutionInfo, Runtime

from app.agent.context import context_of
from app.agent.state import last_compaction_id
from app.compaction.types import CompactionKind
from app.ports import AgentSpec, CompactionJob, Compactor

# What LangGraph puts between the parts of a checkpoint namespace.
NS_SEP = "|"


def job_for(
    kind: CompactionKind,
    state: Mapping[str, Any],
    runtime: Runtime[Any],
    compactor: Compactor,
    agent: AgentSpec,
    model_name: str,
) -> CompactionJob:
    """A job on the conversation that this step runs on: the thread's, or inside a run a subagent's."""
    info = runtime.execution_info
    context = context_of(state, agent, compactor.window(model_name), compactor.reserved(model_name))
    return CompactionJob(
        thread_id=(info.thread_id if info else None) or "",
        run_id=_run_id(info),
        agent_name=agent.name,
        model_name=model_name,
        context=context,
        kind=kind,
        force=kind == "overflow",
        emit=runtime.stream_writer,
        runtime=runtime,
        agent_kind=agent.kind,
        checkpoint_ns=namespace_of(runtime),
        previous_id=last_compaction_id(state),
    )


def _run_id(info: ExecutionInfo | None) -> str | None:
    """The run's id. LangGraph gives it to the outermost graph only; the configuration reaches the inner ones too."""
    if info is None:
        return None
    return info.run_id or get_config().get("configurable", {}).get("run_id")


def namespace_of(runtime: Runtime[Any]) -> str:
    """Where the checkpoints of this graph are, empty for the outermost one: the step's own namespace without its last
    part, which is the step."""
    info = runtime.execution_info
    return info.checkpoint_ns.rpartition(NS_SEP)[0] if info else ""

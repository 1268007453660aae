"""What the hooks tell the compactor about the step they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime

from app.agent.context import context_of
from app.compaction.types import CompactionKind
from app.ports import AgentSpec, CompactionJob, Compactor


def job_for(
    kind: CompactionKind,
    state: Mapping[str, Any],
    runtime: Runtime[Any],
    compactor: Compactor,
    agent: AgentSpec,
    model_name: str,
) -> CompactionJob:
    """A job on the thread that this step runs on."""
    info = runtime.execution_info
    context = context_of(state, agent, compactor.window(model_name), compactor.reserved(model_name))
    return CompactionJob(
        thread_id=(info.thread_id if info else None) or "",
        run_id=info.run_id if info else None,
        agent_name=agent.name,
        model_name=model_name,
        context=context,
        kind=kind,
        force=kind == "overflow",
        emit=runtime.stream_writer,
        runtime=runtime,
    )

"""The floor: the graph that the service hosts, one saver per run on one pool, in this process, without HTTP, queue and
event log."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessageChunk, HumanMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from app.agent.build import AgentGraphs
from app.agent.dynamic import DynamicContext
from app.agent.parts import AgentParts
from app.agent.title import Titles
from app.agent.tool_output import ToolOutput
from app.agent.tools import Workspaces, clarification_tool, file_tools, todos_tool
from app.bench.gateway.visitor import QUESTION, Visit, VisitError
from app.bench.rig import build_compactor
from app.chat_models.demo import DemoChatModel
from app.chat_models.registry import ChatModelRegistry
from app.config import DynamicContextSettings, ModelSettings, Settings, SummarizationSettings
from app.config.agents import DEFAULT_AGENT
from app.config.title import TitleSettings
from app.config.tool_output import ToolOutputSettings
from app.persistence.database import Database

_DEMO = ModelSettings.model_validate(
    {"name": "demo", "use": "app.chat_models.demo:DemoChatModel", "token_delay_s": 0}
)


class Floor:
    """The agent of the default configuration with LangGraph's own saver."""

    def __init__(self, settings: Settings, database: Database) -> None:
        settings = replace(settings, models=(_DEMO,), agents=(DEFAULT_AGENT,), graphs=())
        models = ChatModelRegistry(settings.models, {})
        workspaces = Workspaces(settings.data_dir / "workspaces")
        parts = AgentParts(
            build_compactor(SummarizationSettings(), models, database.pool),
            (*file_tools(workspaces), todos_tool(), clarification_tool()),
            dynamic_context=DynamicContext(partial(datetime.now, UTC), DynamicContextSettings().zone),
            titles=Titles(TitleSettings(), models),
            tool_output=ToolOutput(ToolOutputSettings(), workspaces),
        )
        pool: Any = database.pool
        self._graphs = AgentGraphs(
            settings, models, parts, lambda: AsyncPostgresSaver(pool), DemoChatModel(token_delay_s=0)
        )

    async def visit(self) -> Visit:
        """The same three steps as a client's: a new thread, a run whose tokens are looked at, its state read."""
        begun = time.perf_counter()
        config: Any = {"configurable": {"thread_id": str(uuid4())}}
        asked = time.perf_counter()
        graph = self._graphs.for_run(DEFAULT_AGENT.name, _DEMO.name)
        first, tokens = None, 0
        stream: Any = graph.astream(
            {"messages": [HumanMessage(QUESTION)]}, config, stream_mode=["messages", "values"], subgraphs=True
        )
        async for _, mode, data in stream:
            if mode == "messages" and isinstance(data[0], AIMessageChunk):
                first = first or time.perf_counter()
                tokens += 1
        state = await self._graphs.for_state(DEFAULT_AGENT.name).aget_state(config)
        if first is None or len(state.values["messages"]) < 2:
            raise VisitError("the graph gave no answer")
        return Visit(time.perf_counter() - begun, first - asked, tokens)

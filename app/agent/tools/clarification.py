"""The tool ``ask_clarification``: a question to the person, and what counts as an answer to it.

The request and the response have the form that DeerFlow's chat shows as a card; any other front end shows the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import Field

from app.compaction.roles import CLARIFICATION_ANSWER, CLARIFICATION_TOOL, is_tool_result

REQUEST = "human_input"
"""Where in its ``artifact`` a result holds the question as front ends show it; the answer is beside it, under
``CLARIFICATION_ANSWER``."""

NO_ANSWER = "(The person gave no answer.)"

_SHOWN = "[The question is shown to the person. What they say next may answer it.]"
_DESCRIPTION = """\
Ask the person one question and wait for the answer, which is the result of this call, in their own words. Use it when \
something essential is missing or ambiguous, when they have to choose between ways, or before something that cannot be \
undone; not for what you can find out or decide yourself. Offer options when there are only a few."""

Kind = Literal["missing_info", "ambiguous_requirement", "approach_choice", "risk_confirmation", "suggestion"]
_ANSWER_KEYS = (CLARIFICATION_ANSWER, "answer", "value", "text", "content", "args", "response")


@cache
def clarification_tool() -> BaseTool:
    """The tool itself only writes the question down; ``ClarificationMiddleware`` stops the run to have it answered."""
    return StructuredTool.from_function(
        coroutine=_ask, name=CLARIFICATION_TOOL, description=_DESCRIPTION, infer_schema=True
    )


async def _ask(
    runtime: ToolRuntime[Any, Any],
    question: Annotated[str, Field(min_length=1, description="The question, complete in itself.")],
    options: Annotated[Sequence[str], Field(description="Answers to choose from; others are possible.")] = (),
    type: Annotated[Kind, Field(description="Why you ask.")] = "missing_info",
) -> ToolMessage:
    call_id = str(runtime.tool_call_id)
    choices = list(dict.fromkeys(text for option in options if (text := option.strip())))
    listed = "".join(f"\n{number}. {choice}" for number, choice in enumerate(choices, 1))
    return ToolMessage(
        content=f"{question}{listed}\n\n{_SHOWN}",
        artifact={REQUEST: _request(call_id, question, choices, type)},
        name=CLARIFICATION_TOOL,
        tool_call_id=call_id,
    )


def _request(call_id: str, question: str, choices: Sequence[str], kind: Kind) -> dict[str, Any]:
    request: dict[str, Any] = {
        "version": 1,
        "kind": "human_input_request",
        "source": CLARIFICATION_TOOL,
        "request_id": f"clarification:{call_id}",
        "tool_call_id": call_id,
        "clarification_type": kind,
        "question": question,
        "input_mode": "choice_with_other" if choices else "free_text",
    }
    if choices:
        request["options"] = [
            {"id": f"option-{number}", "label": choice, "value": choice}
            for number, choice in enumerate(choices, 1)
        ]
    return request


def unanswered(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """The questions at the end of a conversation that wait for an answer, in order. Whatever a person says behind them
    settles them."""
    waiting: list[ToolMessage] = []
    for message in reversed(messages):
        if not is_tool_result(message):
            break
        if message.name == CLARIFICATION_TOOL and _is_open(message.artifact):
            waiting.append(message)
    return waiting[::-1]


def _is_open(artifact: Any) -> bool:
    if not isinstance(artifact, dict) or CLARIFICATION_ANSWER in artifact:
        return False
    return isinstance(artifact.get(REQUEST), dict)


def with_answer(message: ToolMessage, given: Any) -> ToolMessage:
    """The question's result once it is answered: what the person said, and both forms for front ends."""
    request = message.artifact[REQUEST]
    text = _answer_text(given, request)
    chosen = _option(request, "value", text)
    response = {
        "version": 1,
        "kind": CLARIFICATION_ANSWER,
        "source": request.get("source", CLARIFICATION_TOOL),
        "request_id": request.get("request_id", ""),
        "response_kind": "option" if chosen else "text",
        **({"option_id": chosen.get("id")} if chosen else {}),
        "value": text,
    }
    return message.model_copy(
        update={"content": text, "artifact": {**message.artifact, CLARIFICATION_ANSWER: response}}
    )


def _answer_text(given: Any, request: Mapping[str, Any]) -> str:
    """What the person said, in whatever form a front end resumes with: a text, ``{"answer": …}``, DeerFlow's response,
    a message, LangChain's list of responses."""
    return _said(given, request) or NO_ANSWER


def _said(given: Any, request: Mapping[str, Any]) -> str:
    match given:
        case None:
            return ""
        case str():
            return given.strip()
        case bool():
            return "yes" if given else "no"
        case list():
            return ", ".join(said for item in given if (said := _said(item, request)))
        case dict():
            return _said_in(given, request)
        case _:
            return str(given)


def _said_in(given: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    for key in _ANSWER_KEYS:
        if said := _said(given.get(key), request):
            return said
    chosen = _option(request, "id", given.get("option_id"))
    if chosen:
        return str(chosen.get("value"))
    return json.dumps(given, ensure_ascii=False) if given else ""


def _option(request: Mapping[str, Any], key: str, value: Any) -> Mapping[str, Any] | None:
    options = request.get("options")
    listed = options if isinstance(options, list) else []
    return next((option for option in listed if isinstance(option, dict) and option.get(key) == value), None)

"""The provider stand-in, used by the real client that the project uses."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessageChunk
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI

from app.chat_models.overflow import is_context_overflow
from tests.support.answers import Fail, HalfStream, Hang, Reply, Request
from tests.support.overflow_shapes import OVERFLOWS
from tests.support.provider import Provider, running_provider
from tests.support.scenarios import FAILURES, OVERFLOW_SCENARIOS, REPLIES, SCENARIOS, Scenario


def model(provider: Provider, **options: Any) -> ChatOpenAI:
    settings = {
        "model": "stand-in",
        "api_key": "unused",
        "max_retries": 0,
        "timeout": 10,
        "stream_usage": True,
    }
    return ChatOpenAI(base_url=provider.base_url, **{**settings, **options})


async def ask(chat: ChatOpenAI, mode: str, text: str = "hello") -> AIMessage:
    if mode == "invoke":
        return await chat.ainvoke(text)
    total: BaseMessageChunk | None = None
    async for chunk in chat.astream(text):
        total = chunk if total is None else total + chunk
    assert isinstance(total, AIMessageChunk)
    return total


both_modes = pytest.mark.parametrize("mode", ["invoke", "stream"])


@both_modes
async def test_a_reply_arrives_whole_with_usage_and_finish_reason(provider: Provider, mode: str) -> None:
    provider.reply("Grüße 世界 🎉, and more words", usage=(120, 7))
    answer = await ask(model(provider), mode)
    assert answer.text == "Grüße 世界 🎉, and more words"
    assert answer.usage_metadata is not None
    assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (120, 7)
    assert answer.response_metadata["finish_reason"] == "stop"


async def test_a_stream_arrives_in_pieces(provider: Provider) -> None:
    provider.reply("one two three four five")
    pieces = [chunk.text async for chunk in model(provider).astream("hello") if chunk.text]
    assert len(pieces) > 3
    assert "".join(pieces) == "one two three four five"


async def test_usage_is_streamed_only_when_asked_for(provider: Provider) -> None:
    answer = await ask(model(provider, stream_usage=False), "stream")
    assert answer.usage_metadata is None


@both_modes
async def test_usage_can_be_withheld(provider: Provider, mode: str) -> None:
    provider.reply("x", usage=None)
    assert (await ask(model(provider), mode)).usage_metadata is None


@both_modes
async def test_a_tool_call_arrives_with_its_arguments(provider: Provider, mode: str) -> None:
    provider.tool_call("search", {"query": "café", "limit": 3})
    answer = await ask(model(provider), mode)
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [
        ("search", {"query": "café", "limit": 3})
    ]
    assert answer.response_metadata["finish_reason"] == "tool_calls"


@both_modes
async def test_parallel_tool_calls_have_ids_of_their_own(provider: Provider, mode: str) -> None:
    calls = (provider.call("a", {}), provider.call("b", {"x": 1}))
    provider.sequence(Reply("working", tool_calls=calls))
    answer = await ask(model(provider), mode)
    assert answer.text == "working"
    assert [call["name"] for call in answer.tool_calls] == ["a", "b"]
    assert len({call["id"] for call in answer.tool_calls}) == 2


async def test_requests_are_recorded_as_they_were_sent(provider: Provider) -> None:
    @tool
    def look(where: str) -> str:
        """Look somewhere."""
        return where

    await (
        model(provider, max_tokens=77)
        .bind_tools([look])
        .ainvoke([("system", "be brief"), ("user", "hi there")])
    )
    (request,) = provider.chats
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert request.text == "be brief\nhi there"
    assert request.body["model"] == "stand-in"
    assert request.body["max_completion_tokens"] == 77
    assert request.body["tools"][0]["function"]["name"] == "look"
    assert not request.stream


async def test_answers_come_in_the_scripted_order_and_then_by_default(provider: Provider) -> None:
    provider.sequence(Reply("first"), Fail(500), Reply("third"))
    provider.always(lambda request: Reply(f"{len(request.messages)} message"))
    chat = model(provider)
    assert (await chat.ainvoke("x")).text == "first"
    with pytest.raises(openai.InternalServerError):
        await chat.ainvoke("x")
    assert (await chat.ainvoke("x")).text == "third"
    assert (await chat.ainvoke("x")).text == "1 message"


async def test_a_rule_answers_the_requests_it_is_for_and_leaves_the_script_alone(provider: Provider) -> None:
    provider.when(lambda request: "summarise" in request.text, Reply("a summary"))
    provider.reply("an answer")
    chat = model(provider)
    assert (await chat.ainvoke("summarise this")).text == "a summary"
    assert (await chat.ainvoke("hello")).text == "an answer"


@both_modes
async def test_a_request_over_the_limit_overflows_and_a_shorter_one_does_not(
    provider: Provider, mode: str
) -> None:
    provider.limit(1_000)
    chat = model(provider)
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(chat, mode, "word " * 2_000)
    assert is_context_overflow(caught.value)
    assert (await ask(chat, mode, "word")).text == "ok"


async def test_the_models_are_listed(provider: Provider) -> None:
    provider.models = ["small", "large"]
    async with openai.AsyncOpenAI(base_url=provider.base_url, api_key="unused") as client:
        assert [found.id async for found in client.models.list()] == ["small", "large"]
    assert provider.chats == []


async def test_an_unknown_route_is_404(provider: Provider) -> None:
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{provider.base_url}/embeddings")).status_code == 404


async def test_an_azure_client_is_served_too(provider: Provider) -> None:
    chat = AzureChatOpenAI(
        azure_endpoint=provider.base_url.removesuffix("/v1"),
        azure_deployment="mine",
        api_version="2025-01-01",
        api_key="unused",
        max_retries=0,
    )
    assert (await chat.ainvoke("hello")).text == "ok"
    assert provider.chats[0].path == "/openai/deployments/mine/chat/completions"


async def test_headers_of_a_failure_reach_the_client(provider: Provider) -> None:
    provider.fail(429, {"error": {"message": "slow down"}}, {"retry-after": "7"})
    with pytest.raises(openai.RateLimitError) as caught:
        await model(provider).ainvoke("hello")
    assert caught.value.response.headers["retry-after"] == "7"


async def test_a_hanging_answer_goes_on_when_released(provider: Provider) -> None:
    provider.hang(then=Reply("at last"))
    call = asyncio.create_task(model(provider).ainvoke("hello"))
    await provider.asked(1)
    assert not call.done()
    provider.release()
    assert (await call).text == "at last"


async def test_a_hanging_answer_can_end_in_a_broken_connection(provider: Provider) -> None:
    provider.hang()
    call = asyncio.create_task(model(provider).ainvoke("hello"))
    await provider.asked(1)
    provider.release()
    with pytest.raises(openai.APIConnectionError):
        await call


async def test_a_stream_can_pause_in_the_middle(provider: Provider) -> None:
    provider.sequence(Hang(after="one ", then=Reply("two")))
    stream = model(provider).astream("hello")
    text = ""
    async for chunk in stream:
        text += chunk.text
        if text == "one ":
            provider.release()
    assert text == "one two"


async def test_a_client_that_gives_up_is_noticed(provider: Provider) -> None:
    provider.hang()
    call = asyncio.create_task(model(provider).ainvoke("hello"))
    await provider.asked(1)
    call.cancel()
    await provider.hung_up(1)
    assert provider.hangups == 1


async def test_answers_that_hang_do_not_hold_up_others_or_the_end() -> None:
    with running_provider() as provider:
        provider.sequence(Hang(), Reply("quick"))
        hanging = asyncio.create_task(model(provider).ainvoke("slow"))
        await provider.asked(1)
        assert (await model(provider).ainvoke("fast")).text == "quick"
    with pytest.raises(openai.APIConnectionError):
        await hanging


async def test_many_requests_at_once_are_served(provider: Provider) -> None:
    provider.always(lambda request: Reply(request.text))
    chat = model(provider)
    answers = await asyncio.gather(*(chat.ainvoke(f"number {number}") for number in range(40)))
    assert [answer.text for answer in answers] == [f"number {number}" for number in range(40)]


async def test_a_large_request_is_read_whole(provider: Provider) -> None:
    text = "öß" * 2_000_000
    await model(provider).ainvoke(text)
    assert provider.chats[0].text == text


@both_modes
async def test_an_answer_that_ends_without_a_finish_reason_looks_complete(
    provider: Provider, mode: str
) -> None:
    provider.sequence(HalfStream("half", clean=True))
    answer = await ask(model(provider), mode)
    assert answer.text == "half"
    assert answer.response_metadata.get("finish_reason") is None


def scripted(scenarios: tuple[Scenario, ...], *outcomes: str) -> Any:
    chosen = [scenario for scenario in scenarios if not outcomes or scenario.outcome in outcomes]
    return pytest.mark.parametrize("scenario", chosen, ids=str)


@both_modes
@scripted(FAILURES, "error", "transient")
async def test_each_failure_raises(provider: Provider, scenario: Scenario, mode: str) -> None:
    provider.sequence(scenario.answer)
    with pytest.raises(Exception) as caught:
        await ask(model(provider), mode)
    assert not is_context_overflow(caught.value)
    assert not isinstance(caught.value, (TimeoutError, openai.APITimeoutError))


@both_modes
@scripted(FAILURES, "silence")
async def test_each_silence_lasts_until_the_clients_own_timeout(
    provider: Provider, scenario: Scenario, mode: str
) -> None:
    provider.sequence(scenario.answer)
    with pytest.raises(openai.APITimeoutError):
        await ask(model(provider, timeout=0.3, stream_chunk_timeout=None), mode)
    await provider.hung_up(1)


@both_modes
@scripted(OVERFLOW_SCENARIOS)
async def test_each_overflow_is_recognised_as_the_real_client_raises_it(
    provider: Provider, scenario: Scenario, mode: str
) -> None:
    provider.sequence(scenario.answer)
    with pytest.raises(Exception) as caught:
        await ask(model(provider), mode)
    assert is_context_overflow(caught.value)


@both_modes
@scripted(REPLIES)
async def test_each_odd_reply_returns(provider: Provider, scenario: Scenario, mode: str) -> None:
    provider.sequence(scenario.answer)
    answer = await ask(model(provider), mode, "the very prompt " * 20)
    expected = Request("POST", "", {}, provider.chats[0].body).text if scenario.name == "echo" else None
    reply = scenario.answer
    assert answer.text == (reply.text or "" if isinstance(reply, Reply) else expected)


async def test_a_refusal_is_a_field_when_plain_and_lost_when_streamed(provider: Provider) -> None:
    """What langchain-openai does with it, which the gate of rule E4 has to live with."""
    refusal = Reply(None, refusal="I'm sorry, I can't help with that.")
    provider.sequence(refusal, refusal)
    assert (await ask(model(provider), "invoke")).additional_kwargs["refusal"] == refusal.refusal
    streamed = await ask(model(provider), "stream")
    assert streamed.text == ""
    assert "refusal" not in streamed.additional_kwargs


def test_scenario_names_are_unique_and_cover_every_shape() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert len(OVERFLOW_SCENARIOS) == len(OVERFLOWS) > 40

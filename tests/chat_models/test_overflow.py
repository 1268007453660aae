"""The overflow classifier against the errors that providers publish, as their clients raise them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError
from langchain_openai.chat_models.base import _handle_openai_api_error, _handle_openai_bad_request

from app.chat_models.overflow import is_context_overflow
from app.errors import ContextOverflow, ModelError
from tests.support.overflow_shapes import LOOKALIKES, OVERFLOWS, ErrorShape

PLAIN_OVERFLOWS = [shape for shape in OVERFLOWS if not shape.in_stream]
PLAIN_LOOKALIKES = [shape for shape in LOOKALIKES if not shape.in_stream]


def openai_error(shape: ErrorShape) -> openai.APIStatusError:
    """The exception that the openai client itself builds from this answer."""
    client = openai.AsyncOpenAI(api_key="unused", base_url="http://127.0.0.1:9/v1")
    request = httpx2.Request("POST", "http://127.0.0.1:9/v1/chat/completions")
    response = httpx2.Response(shape.status, text=shape.text, request=request)
    return client._make_status_error_from_response(response)


def langchain_error(shape: ErrorShape) -> BaseException:
    """What langchain-openai raises instead."""
    try:
        try:
            raise openai_error(shape)
        except openai.BadRequestError as error:
            _handle_openai_bad_request(error)
        except openai.APIError as error:
            _handle_openai_api_error(error)
    except openai.APIError as error:
        return error
    raise AssertionError("langchain-openai swallowed the error")


def stream_error(shape: ErrorShape) -> openai.APIError:
    """What the openai client raises for an error event in a stream that began with 200."""
    body = shape.body["error"]
    message = body.get("message") if isinstance(body, dict) else None
    request = httpx2.Request("POST", "http://127.0.0.1:9/v1/chat/completions")
    return openai.APIError(message or "An error occurred during streaming", request, body=body)


class AnthropicLike(Exception):
    """The form of anthropic's and mistral's errors: the whole body, not only its inner part."""

    def __init__(self, shape: ErrorShape) -> None:
        super().__init__(f"Error code: {shape.status}")
        self.status_code = shape.status
        self.body = shape.body


class GoogleLike(Exception):
    """The form of google.genai's errors: an integer ``code``, a ``status`` word, the body as ``details``."""

    def __init__(self, shape: ErrorShape) -> None:
        super().__init__(f"{shape.status} {shape.body}")
        self.code = shape.status
        self.status = "INVALID_ARGUMENT"
        self.details = shape.body


class BotocoreLike(Exception):
    """The form of botocore's ``ClientError`` and ``EventStreamError``."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"An error occurred ({code}) when calling the Converse operation: {message}")
        self.operation_name = "Converse"
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


class OllamaLike(Exception):
    def __init__(self, error: str, status_code: int) -> None:
        super().__init__(error)
        self.error = error
        self.status_code = status_code


@pytest.mark.parametrize("shape", PLAIN_OVERFLOWS, ids=str)
def test_an_overflow_is_recognised_in_the_openai_clients_exception(shape: ErrorShape) -> None:
    assert is_context_overflow(openai_error(shape))


@pytest.mark.parametrize("shape", PLAIN_OVERFLOWS, ids=str)
def test_an_overflow_is_recognised_in_what_langchain_makes_of_it(shape: ErrorShape) -> None:
    assert is_context_overflow(langchain_error(shape))


@pytest.mark.parametrize("shape", [s for s in OVERFLOWS if s.in_stream], ids=str)
def test_an_overflow_reported_inside_a_stream_is_recognised(shape: ErrorShape) -> None:
    assert is_context_overflow(stream_error(shape))


@pytest.mark.parametrize("form", [AnthropicLike, GoogleLike])
@pytest.mark.parametrize("shape", PLAIN_OVERFLOWS, ids=str)
def test_an_overflow_is_recognised_whatever_attributes_carry_it(shape: ErrorShape, form: Any) -> None:
    assert is_context_overflow(form(shape))


@pytest.mark.parametrize("shape", PLAIN_LOOKALIKES, ids=str)
def test_another_error_is_not_taken_for_an_overflow(shape: ErrorShape) -> None:
    assert not is_context_overflow(openai_error(shape))
    assert not is_context_overflow(langchain_error(shape))
    assert not is_context_overflow(AnthropicLike(shape))


@pytest.mark.parametrize("shape", [s for s in LOOKALIKES if s.in_stream], ids=str)
def test_another_error_inside_a_stream_is_not_taken_for_an_overflow(shape: ErrorShape) -> None:
    assert not is_context_overflow(stream_error(shape))


@pytest.mark.parametrize(
    "message",
    [
        "Input is too long for requested model.",
        "The model returned the following errors: prompt is too long: 227255 tokens > 200000 maximum",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
        "Too many input tokens. Max input tokens: 8192, request input token count: 10020",
        "The model returned the following errors: input length and `max_tokens` exceed context limit:"
        " 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again",
    ],
)
def test_bedrock_validation_errors_about_length_are_overflows(message: str) -> None:
    assert is_context_overflow(BotocoreLike("ValidationException", message))


@pytest.mark.parametrize("status", [400, 429])
def test_bedrock_throttling_is_not_an_overflow(status: int) -> None:
    error = BotocoreLike("ThrottlingException", "Too many tokens, please wait before trying again.", status)
    assert not is_context_overflow(error)


def test_the_native_ollama_error_is_recognised() -> None:
    assert is_context_overflow(OllamaLike("the input length exceeds the context length", 400))
    assert not is_context_overflow(OllamaLike("model 'x' not found", 404))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("context_length_exceeded: Your input exceeds the context window of this model."),
        ValueError("ResponseError(code='context_length_exceeded', message='Too long.')"),
        ValueError({"message": "the request exceeds the available context size", "code": 400}),
        ValueError("Requested tokens (516) exceed context window of 512"),
        RuntimeError(
            'Error from provider(x: 400): {"error":{"message":"prompt is too long: 2 tokens > 1 maximum"}}'
        ),
    ],
    ids=str,
)
def test_a_plain_exception_is_judged_by_its_words(error: Exception) -> None:
    """langchain-openai raises ValueError for a failed Responses API call and for an error sent as 200."""
    assert is_context_overflow(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad value"),
        RuntimeError(),
        TimeoutError(),
        KeyError("choices"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_an_unrelated_exception_is_not_an_overflow(error: BaseException) -> None:
    assert not is_context_overflow(error)


def test_langchains_type_does_not_outweigh_what_the_provider_said() -> None:
    """It is raised for any text with "prompt is too long", and for a reply that alone fills the window."""
    full = next(s for s in LOOKALIKES if s.name == "reply-alone-fills-the-window")
    body = {
        "error": {
            **full.body["error"],
            "message": "context_length_exceeded: " + full.body["error"]["message"],
        }
    }
    error = langchain_error(ErrorShape("made-up", 400, body))
    assert isinstance(error, ContextOverflowError)
    assert not is_context_overflow(error)


def test_langchains_and_our_own_typed_errors_are_overflows() -> None:
    assert is_context_overflow(ContextOverflowError("too long"))
    assert is_context_overflow(ContextOverflow("too long"))


def test_an_httpx_error_is_judged_by_a_body_that_was_read() -> None:
    request = httpx.Request("POST", "http://127.0.0.1:9/v1")
    read = httpx.Response(400, json={"error": "the input length exceeds the context length"}, request=request)
    assert is_context_overflow(
        httpx.HTTPStatusError("Client error '400 Bad Request'", request=request, response=read)
    )


def test_a_body_that_was_not_read_is_not_fetched() -> None:
    fetched: list[bool] = []

    class Body(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            fetched.append(True)
            yield b"prompt is too long"

    request = httpx.Request("POST", "http://127.0.0.1:9/v1")
    unread = httpx.Response(400, stream=Body(), request=request)
    assert not is_context_overflow(httpx.HTTPStatusError("Client error", request=request, response=unread))
    assert not fetched


def chained(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


OVERFLOW = openai_error(OVERFLOWS[0])


def test_a_wrapper_that_says_nothing_is_judged_by_its_cause() -> None:
    wrapped = chained(RuntimeError("model call failed"), chained(ValueError("failed"), OVERFLOW))
    assert is_context_overflow(wrapped)
    assert is_context_overflow(chained(ModelError("model call failed"), OVERFLOW))


def test_a_wrapper_raised_without_from_is_judged_by_its_context() -> None:
    try:
        try:
            raise OVERFLOW
        except openai.APIError:
            raise RuntimeError("model call failed")  # noqa: B904 - the missing `from` is what is tested
    except RuntimeError as error:
        assert is_context_overflow(error)


def test_a_suppressed_context_does_not_count() -> None:
    try:
        try:
            raise OVERFLOW
        except openai.APIError:
            raise RuntimeError("model call failed") from None
    except RuntimeError as error:
        assert not is_context_overflow(error)


@pytest.mark.parametrize(
    "second",
    [
        openai_error(next(s for s in LOOKALIKES if s.name == "bad-key")),
        openai_error(next(s for s in LOOKALIKES if s.name == "openai-tokens-per-minute")),
        openai.APIConnectionError(request=httpx2.Request("POST", "http://127.0.0.1:9/v1")),
        ConnectionResetError("reset"),
        TimeoutError("too slow"),
    ],
    ids=repr,
)
def test_a_different_failure_while_an_overflow_was_handled_is_not_an_overflow(second: Exception) -> None:
    try:
        try:
            raise OVERFLOW
        except openai.APIError:
            raise second  # noqa: B904 - the implicit context is what is tested
    except (openai.APIError, OSError) as error:
        assert error.__context__ is OVERFLOW
        assert not is_context_overflow(error)


def test_a_group_of_errors_is_an_overflow_when_one_of_them_is() -> None:
    assert is_context_overflow(ExceptionGroup("two calls", [ValueError("x"), OVERFLOW]))
    assert not is_context_overflow(
        ExceptionGroup("two calls", [ValueError("x"), ModelRateLimitError("slow down")])
    )


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert not is_context_overflow(first)


def test_a_very_long_chain_of_causes_ends() -> None:
    error: BaseException = ValueError("start")
    for number in range(10_000):
        outer = ValueError(str(number))
        outer.__cause__ = error
        error = outer
    assert not is_context_overflow(error)


def test_an_exception_whose_attributes_fail_is_still_judged() -> None:
    class Hostile(Exception):
        @property
        def status_code(self) -> int:
            raise RuntimeError("no")

        @property
        def body(self) -> object:
            raise KeyError("no")

    assert is_context_overflow(Hostile("prompt is too long: 3 tokens > 2 maximum"))
    assert not is_context_overflow(Hostile("something else"))


def test_deeply_nested_and_circular_bodies_end() -> None:
    circular: dict[str, Any] = {"message": "x"}
    circular["error"] = circular
    nested: Any = "prompt is too long"
    for _ in range(1_000):
        nested = {"error": nested}
    for body in (circular, nested, "[" * 100_000):
        error = AnthropicLike(ErrorShape("made-up", 400, body))
        assert not is_context_overflow(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "param", "detail", "x"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(status=st.none() | st.integers(), body=JSON, args=st.lists(JSON, max_size=2))
def test_no_error_makes_the_classifier_raise(status: int | None, body: Any, args: list[Any]) -> None:
    error = Exception(*args)
    error.status_code = status  # type: ignore[attr-defined]
    error.body = body  # type: ignore[attr-defined]
    assert is_context_overflow(error) in (True, False)

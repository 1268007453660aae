"""Chat models by name: what can be used, what is said when something cannot, what reaches the provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage

from app.chat_models.demo import DemoChatModel
from app.chat_models.registry import ChatModelRegistry
from app.config import ModelSettings, settings_from
from app.errors import InvalidInput, ModelError, ModelUnavailable
from tests.support.provider import Provider, running_provider

KEY = "sk-0123456789abcdef"


class FailingModel(DemoChatModel):
    """Its constructor complains about the key it was given, as some do."""

    def __init__(self, **arguments: Any) -> None:
        raise RuntimeError(
            f"no access for {arguments['api_key']} at\n{arguments['default_headers']['x-token']}"
        )


class CountingModel(DemoChatModel):
    """Fails the first time it is built."""

    tries: ClassVar[int] = 0

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        type(self).tries += 1
        if type(self).tries == 1:
            raise RuntimeError("not yet")


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as running:
        yield running


def models(*entries: dict[str, Any]) -> tuple[ModelSettings, ...]:
    return settings_from({"models": list(entries)}).models


def openai(name: str = "gpt", **keys: Any) -> dict[str, Any]:
    return {"name": name, "use": "langchain_openai:ChatOpenAI", "model": "gpt-4o", **keys}


def registry(*entries: dict[str, Any], **environ: str) -> ChatModelRegistry:
    return ChatModelRegistry(models(*entries), environ)


def demo(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "use": "app.chat_models.demo:DemoChatModel", **keys}


# Which one


def test_the_default_is_the_first_model_that_can_be_used() -> None:
    found = registry(openai("a", api_key="$A_KEY"), openai("b", api_key="$B_KEY"), B_KEY=KEY)

    assert found.default == "b"
    assert found.names == ("a", "b")
    assert found.warnings == ('model "a" cannot be used: $A_KEY is not set',)


@pytest.mark.parametrize("value", [None, ""])
def test_with_no_usable_model_the_demo_model_stands_in_with_a_warning(value: str | None) -> None:
    environ = {} if value is None else {"A_KEY": value}
    found = registry(openai("a", api_key="$A_KEY"), **environ)

    assert found.default == "demo"
    assert found.names == ("a", "demo")
    assert any("demo model answers instead" in line for line in found.warnings)
    assert isinstance(found.get("demo"), DemoChatModel)


def test_without_any_configured_model_the_demo_model_is_there() -> None:
    found = registry()

    assert (found.default, found.names) == ("demo", ("demo",))
    assert found.window("demo") == 128_000


def test_the_demo_model_is_not_listed_beside_real_ones_but_can_be_asked_for() -> None:
    found = registry(openai(api_key=KEY))

    assert found.names == ("gpt",)
    assert isinstance(found.get("demo"), DemoChatModel)


def test_the_demo_model_can_be_configured_under_another_name_with_its_own_window() -> None:
    found = registry(demo("offline", token_delay_s=0, context_window=9000))
    model = found.get("offline")

    assert found.default == "offline"
    assert found.warnings == ()
    assert isinstance(model, DemoChatModel)
    assert (model.token_delay_s, model.context_window, found.window("offline")) == (0, 9000, 9000)


def test_a_configured_model_called_demo_that_cannot_be_used_gives_way_to_the_real_one() -> None:
    found = registry(openai("demo", api_key="$A_KEY"))

    assert (found.default, found.names) == ("demo", ("demo",))
    assert isinstance(found.get("demo"), DemoChatModel)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidInput, match=r'unknown model "gtp" \(did you mean "gpt"\? allowed: gpt, local\)'
    ):
        registry(openai(api_key=KEY), openai("local", base_url="http://127.0.0.1:1/v1")).get("gtp")


def test_the_description_has_names_and_windows_and_reasons_but_no_key() -> None:
    found = registry(
        openai(api_key=KEY, display_name="GPT-4o", context_window=1000),
        openai("b", api_key="$B_KEY", model="odd"),
    )

    first, second = found.describe()

    assert (first.name, first.display_name, first.context_window, first.available) == (
        "gpt",
        "GPT-4o",
        1000,
        True,
    )
    assert (second.available, second.reason, second.context_window) == (False, "$B_KEY is not set", None)
    assert KEY not in repr(found.describe())


# What it knows of a model


def test_the_window_is_the_declared_one_else_that_of_the_profile_else_unknown() -> None:
    found = registry(
        openai("declared", api_key=KEY, context_window=5000),
        openai("profiled", api_key=KEY),
        openai("unknown", api_key=KEY, model="something-of-my-own"),
        openai("unusable", api_key="$NOT_SET"),
    )

    assert [found.window(name) for name in found.names] == [5000, 128_000, None, None]


def test_max_tokens_is_what_the_model_reserves_for_its_reply() -> None:
    found = registry(openai("a", api_key=KEY, max_tokens=4096), openai("b", api_key=KEY))

    assert (found.max_tokens("a"), found.max_tokens("b")) == (4096, 0)
    assert found.get("a").max_tokens == 4096  # type: ignore[attr-defined]


def test_a_model_is_built_once() -> None:
    found = registry(openai(api_key=KEY))

    assert found.get("gpt") is found.get("gpt")
    assert found.for_summary("gpt") is found.for_summary("gpt")


def test_for_summaries_the_sdks_own_retries_are_off() -> None:
    found = registry(openai(api_key=KEY, max_retries=4))

    assert found.get("gpt").max_retries == 4  # type: ignore[attr-defined]
    assert found.for_summary("gpt").max_retries == 0  # type: ignore[attr-defined]


def test_usage_is_reported_in_streams_unless_switched_off() -> None:
    found = registry(openai(api_key=KEY), openai("quiet", api_key=KEY, stream_usage=False))

    assert found.get("gpt").stream_usage is True  # type: ignore[attr-defined]
    assert found.get("quiet").stream_usage is False  # type: ignore[attr-defined]


def test_references_are_resolved_at_any_depth() -> None:
    headers = {"x-team": "$TEAM", "x-plain": "as $written"}
    found = registry(openai(api_key="${THE_KEY}", default_headers=headers), TEAM="blue", THE_KEY=KEY)

    model = found.get("gpt")

    assert model.default_headers == {"x-team": "blue", "x-plain": "as $written"}  # type: ignore[attr-defined]
    assert model.openai_api_key.get_secret_value() == KEY  # type: ignore[attr-defined]


def test_a_reference_that_is_not_set_is_named_wherever_it_stands() -> None:
    with pytest.raises(ModelUnavailable, match=r'model "gpt": \$TEAM, \$THE_KEY is not set'):
        registry(openai(default_headers={"x": "$TEAM"}, api_key="$THE_KEY")).get("gpt")


# Servers and keys


async def test_a_server_named_by_base_url_needs_no_key_and_reports_usage(provider: Provider) -> None:
    found = registry(openai(base_url=provider.base_url), OPENAI_API_KEY=KEY)
    provider.reply("hello from here", usage=(11, 3))

    chunks = [chunk async for chunk in found.get("gpt").astream([HumanMessage("hi")])]
    total = sum(chunks[1:], start=chunks[0])

    assert isinstance(total, AIMessageChunk)
    assert total.text == "hello from here"
    assert total.usage_metadata is not None
    assert total.usage_metadata["input_tokens"] == 11


async def test_the_key_of_openai_is_not_sent_to_another_server(provider: Provider) -> None:
    found = registry(openai(base_url=provider.base_url), OPENAI_API_KEY=KEY)
    provider.reply("ok")

    await found.get("gpt").ainvoke([HumanMessage("hi")])

    assert KEY not in str(provider.requests[-1].headers)


def test_openai_itself_takes_the_key_of_the_environment_it_was_given() -> None:
    model = registry(openai(), OPENAI_API_KEY=KEY).get("gpt")

    assert model.openai_api_key.get_secret_value() == KEY  # type: ignore[attr-defined]


def test_openai_without_any_key_is_unavailable() -> None:
    found = registry(openai())

    assert found.default == "demo"
    with pytest.raises(ModelUnavailable, match=r"\$OPENAI_API_KEY is not set"):
        found.get("gpt")


# What goes wrong


@pytest.mark.parametrize(
    ("use", "kind", "said"),
    [
        ("no_such_package.chat:Model", ModelUnavailable, 'the package "no_such_package" is not installed'),
        (
            "langchain_core.no_such_module:Model",
            ModelUnavailable,
            'the module "langchain_core.no_such_module"',
        ),
        ("langchain_core.messages:NoSuchClass", ModelError, "has no such class"),
        ("langchain_core.messages:HumanMessage", ModelError, "is not a LangChain chat model class"),
        ("langchain_core.messages:convert_to_messages", ModelError, "is not a LangChain chat model class"),
    ],
)
def test_a_class_that_cannot_be_loaded_is_one_clear_line(use: str, kind: type[ModelError], said: str) -> None:
    with pytest.raises(kind) as caught:
        registry({"name": "m", "use": use}).get("m")

    assert caught.type is kind
    assert said in str(caught.value)
    assert 'model "m"' in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_wrong_argument_is_named_without_its_value_and_without_the_key() -> None:
    with pytest.raises(ModelError) as caught:
        registry(openai(api_key=KEY, temperature="hot", max_retries=KEY)).get("gpt")

    text = str(caught.value)
    assert "temperature: Input should be a valid number" in text
    assert KEY not in text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_what_a_constructor_says_is_passed_on_without_the_secrets_in_it() -> None:
    entry = {
        "name": "m",
        "use": f"{__name__}:FailingModel",
        "api_key": KEY,
        "default_headers": {"x-token": "$TOKEN"},
    }
    with pytest.raises(ModelError) as caught:
        registry(entry, TOKEN="another-secret").get("m")

    assert str(caught.value).endswith("RuntimeError: no access for *** at ***")


def test_a_failure_is_remembered_for_a_minute_and_then_tried_again() -> None:
    now = [100.0]
    found = ChatModelRegistry(
        models({"name": "m", "use": f"{__name__}:CountingModel"}), {}, clock=lambda: now[0]
    )
    for _ in range(3):
        with pytest.raises(ModelError, match="not yet"):
            found.get("m")
    assert CountingModel.tries == 1

    now[0] += 61

    assert isinstance(found.get("m"), CountingModel)


def test_a_switch_that_a_class_does_not_know_is_left_out() -> None:
    found = registry(openai(api_key=KEY, thinking={"type": "enabled"}, supports_thinking=True))

    assert found.get("gpt").model_kwargs == {}  # type: ignore[attr-defined]

"""The sections auth and limits, and what the environment says of them."""

from __future__ import annotations

from typing import Any

import pytest

from app.config import settings_from
from app.errors import ConfigError

PROVIDER = {"jwks": "https://login.example/jwks", "issuer": "https://login.example", "audience": "threadkeep"}
SECRET = "a secret that has more than thirty-two bytes"


def jwt(**given: Any) -> dict[str, Any]:
    return {"auth": {"type": "jwt", "jwt": given}}


def test_without_a_section_there_are_no_accounts_and_no_limits() -> None:
    settings = settings_from({})
    assert (settings.auth.type, settings.auth.jwt) == ("none", None)
    assert not [value for value in settings.limits.model_dump().values() if value is not None]


def test_a_secret_and_public_keys_have_algorithms_of_their_own() -> None:
    by_secret, by_keys = settings_from(jwt(secret=SECRET)).auth.jwt, settings_from(jwt(**PROVIDER)).auth.jwt
    assert by_secret
    assert by_keys
    assert by_secret.accepted == ("HS256",)
    assert by_keys.accepted == ("RS256", "ES256")


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"auth": {"type": "key"}},
            "auth.type: \"key\" is not allowed: it must be 'none', 'api_key' or 'jwt'",
        ),
        ({"auth": {"typ": "api_key"}}, 'did you mean "type"?'),
        ({"auth": {"type": "api_key", "oidc": {}}}, "auth.oidc: unknown key"),
        ({"auth": {"type": "jwt"}}, "must have type: jwt and jwt:"),
        ({"auth": {"jwt": {"secret": SECRET}}}, "must have type: jwt and jwt:"),
        (jwt(), "either secret or jwks"),
        (jwt(secret=SECRET, **PROVIDER), "either secret or jwks"),
        (jwt(secret=SECRET, algorithms=["RS256"]), "'RS256' is none of them"),
        (jwt(**PROVIDER, algorithms=["HS256"]), "'HS256' is none of them"),
        (jwt(**PROVIDER, algorithms=["none"]), "'none' is none of them"),
        (jwt(jwks="https://login.example/jwks", issuer="x"), "issuer and audience"),
        (jwt(secret=SECRET, leeway_s=3600), "auth.jwt.leeway_s"),
        ({"limits": {"run_tokens": 0}}, "limits.run_tokens: 0 is not allowed"),
        ({"limits": {"requests_per_minute": "10"}}, "without quotes"),
        ({"limits": {"tokens_per_month": 5}}, "limits.tokens_per_month: unknown key"),
    ],
)
def test_a_wrong_value_is_said_with_what_is_allowed(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(sections)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_accounts_of_another_project_are_ignored_with_a_warning() -> None:
    settings = settings_from({"auth": {"oidc": {"enabled": True}}})
    assert settings.auth.type == "none"
    assert any("auth.oidc" in warning for warning in settings.warnings)


def test_variables_say_it_too() -> None:
    environ = {"THREADKEEP_AUTH": "api_key", "THREADKEEP_ALLOW_UNAUTHENTICATED": "1"}
    settings = settings_from({}, environ=environ)
    assert (settings.auth.type, settings.server.allow_unauthenticated) == ("api_key", True)
    assert not settings_from(
        {}, environ={"THREADKEEP_ALLOW_UNAUTHENTICATED": "0"}
    ).server.allow_unauthenticated
    for variable in environ:
        with pytest.raises(ConfigError, match=f"{variable}: "):
            settings_from({}, environ={variable: "maybe"})

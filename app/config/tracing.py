"""The section ``tracing``: where OpenTelemetry spans are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from app.config.models import reference_name
from app.config.values import Section, Text, refuse
from app.errors import ConfigError


class TracingSettings(Section):
    """Nothing is traced without an ``endpoint``: the address of an OTLP collector over HTTP, without ``/v1/traces``.

    ``headers`` go with each delivery ($NAME is read from the environment). ``sample_ratio`` is the share of traces that
    begin here which are recorded, 0 to 1; one that the caller began is recorded when the caller records it.
    """

    endpoint: Text | None = None
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    service_name: Text = "threadkeep"
    sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0

    @field_validator("endpoint")
    @classmethod
    def _address(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            raise refuse("must begin with http:// or https://")
        return endpoint

    def sent_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Raises ConfigError for a variable that is not set."""
        return {name: _value(name, value.get_secret_value(), environ) for name, value in self.headers.items()}


def _value(header: str, text: str, environ: Mapping[str, str]) -> str:
    name = reference_name(text)
    if name is None:
        return text
    if name not in environ:
        raise ConfigError(f"tracing.headers.{header}: the variable ${name} it refers to is not set")
    return environ[name]

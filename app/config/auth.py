"""The section ``auth``: who may use the service, and how they show who they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from app.config.models import looked_up
from app.config.values import Section, Text, refuse
from app.errors import ConfigError

AuthType = Literal["none", "api_key", "jwt"]
SHORTEST_SECRET_BYTES = 32
_SYMMETRIC = ("HS256", "HS384", "HS512")
_ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_URL = re.compile(r"https?://[^\s/]+\S*")


class JwtSettings(Section):
    """How tokens are checked: by one shared ``secret`` (HS…), or by the public keys of ``jwks``, a URL or a file.

    ``leeway_s`` is what clocks may differ, in seconds. ``owner_claim`` and ``admin_claim`` name claims, with dots for
    nested ones; a token whose admin claim is or holds ``admin_value`` is an administrator's.
    """

    secret: SecretStr | None = None
    jwks: Text | None = None
    algorithms: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    issuer: Text | None = None
    audience: Text | None = None
    leeway_s: Annotated[float, Field(ge=0, le=300, strict=False)] = 30.0
    owner_claim: Text = "sub"
    admin_claim: Text = "scope"
    admin_value: Text = "threadkeep:admin"

    @field_validator("secret", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return SecretStr(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _whole(self) -> JwtSettings:
        if (self.secret is None) == (self.jwks is None):
            raise refuse("must have either secret or jwks")
        allowed = _SYMMETRIC if self.secret else _ASYMMETRIC
        for name in self.algorithms:
            if name not in allowed:
                # A secret and public keys never share an algorithm: a public key must not pass for a secret.
                raise refuse(f"must name algorithms of {', '.join(allowed)}; {name!r} is none of them")
        if self.jwks and not (self.issuer and self.audience):
            # Else each token of that provider, for whatever service, would open this one.
            raise refuse("must have issuer and audience beside jwks")
        return self

    @property
    def accepted(self) -> tuple[str, ...]:
        """The algorithms that are accepted; every other one is refused, ``none`` always."""
        return self.algorithms or (("HS256",) if self.secret else ("RS256", "ES256"))

    @property
    def jwks_is_url(self) -> bool:
        return bool(self.jwks and _URL.fullmatch(self.jwks))

    def jwks_file(self, config_dir: Path) -> Path:
        return config_dir / Path(self.jwks or "").expanduser()

    def shared_secret(self, environ: Mapping[str, str]) -> str | None:
        """The secret itself; ``$NAME`` is read from the environment. Raises ConfigError."""
        if self.secret is None:
            return None
        text = looked_up(self.secret, environ, "auth.jwt.secret")
        if len(text.encode()) < SHORTEST_SECRET_BYTES:
            raise ConfigError(f"auth.jwt.secret: must have {SHORTEST_SECRET_BYTES} bytes or more")
        return text


class AuthSettings(Section):
    """``none``: whoever reaches the port is the one owner of everything. ``jwt`` has the section of that name."""

    type: AuthType = "none"
    jwt: JwtSettings | None = None

    @model_validator(mode="after")
    def _complete(self) -> AuthSettings:
        if (self.type == "jwt") != (self.jwt is not None):
            raise refuse("must have type: jwt and jwt: {secret: …} or {jwks: …} together, or neither")
        return self

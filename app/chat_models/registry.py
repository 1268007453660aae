"""The configured chat models by name: which can be used, which is the default, the model itself on demand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.language_models import BaseChatModel

from app.chat_models.construct import construct, unavailable_reason
from app.config.models import DEMO_MODEL_NAME, ModelSettings
from app.config.problems import did_you_mean
from app.errors import InvalidInput, ModelError
from app.ports import MODEL_KEY

_FAILURE_REMEMBERED_S = 60.0

_DEMO = ModelSettings(
    name=DEMO_MODEL_NAME, display_name="Demo (no language model)", use="app.chat_models.demo:DemoChatModel"
)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as people may see it: no key, no address.

    ``context_window`` is tokens, None when nobody declared it; ``reason`` says why it is not ``available``; ``model``
    is what the provider calls it; ``supports`` is what the configuration says that it can do.
    """

    name: str
    display_name: str
    context_window: int | None
    available: bool
    reason: str | None
    description: str | None = None
    model: str | None = None
    supports: Mapping[str, bool] = field(default_factory=dict)


class ChatModelRegistry:
    """Builds models when they are first asked for and keeps them (rules A1, A2, E2).

    The demo model can always be asked for by its name; it is listed only when it is configured, or when it is
    the default because nothing else can be used. ``clock`` is seconds.
    """

    def __init__(
        self,
        models: Sequence[ModelSettings],
        environ: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = environ
        self._clock = clock
        self._reasons = {model.name: unavailable_reason(model, environ) for model in models}
        usable = [name for name, reason in self._reasons.items() if reason is None]
        self._demo_stands_in = not usable
        self._default = DEMO_MODEL_NAME if self._demo_stands_in else usable[0]
        self._settings = {DEMO_MODEL_NAME: _DEMO} | {model.name: model for model in models}
        listed = [model.name for model in models]
        if self._demo_stands_in:
            # Also when a model of that very name is configured and cannot be used.
            self._settings[DEMO_MODEL_NAME] = _DEMO
            self._reasons.pop(DEMO_MODEL_NAME, None)
            listed.append(DEMO_MODEL_NAME)
        self._names = tuple(dict.fromkeys(listed))
        self._built: dict[tuple[str, bool], BaseChatModel] = {}
        self._failed: dict[tuple[str, bool], tuple[float, ModelError]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @property
    def default(self) -> str:
        """Name of the first usable model, or of the demo model when none is."""
        return self._default

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the log: which models cannot be used and why; whether the demo model stands in."""
        unusable = [f'model "{name}" cannot be used: {why}' for name, why in self._reasons.items() if why]
        if self._demo_stands_in:
            unusable.append("no configured model can be used: the offline demo model answers instead")
        return tuple(unusable)

    def describe(self) -> tuple[ModelInfo, ...]:
        """All listed models in order of the configuration."""
        return tuple(self._info(name) for name in self._names)

    def get(self, name: str) -> BaseChatModel:
        """The model that answers. Raises InvalidInput for an unknown name, ModelUnavailable when a key or its
        package is missing, ModelError when it cannot be built."""
        return self._model(name, retries=True)

    def for_summary(self, name: str) -> BaseChatModel:
        """The same model without retries of its own, which would multiply with ours (rule E3)."""
        return self._model(name, retries=False)

    def window(self, name: str) -> int | None:
        """The context window in tokens: as declared, else from LangChain's profile, else None (A4)."""
        declared = self._of(name).context_window
        if declared is not None:
            return declared
        try:
            profile = self.get(name).profile
        except ModelError:
            return None
        return profile.get("max_input_tokens") if profile else None

    def max_tokens(self, name: str) -> int:
        """Tokens that the model's ``max_tokens`` reserves for the reply; 0 when it declares none."""
        return self._of(name).max_tokens or 0

    def _info(self, name: str) -> ModelInfo:
        reason = self._reasons.get(name)
        settings = self._of(name)
        return ModelInfo(
            name,
            settings.display_name or name,
            self.window(name),
            available=reason is None,
            reason=reason,
            description=settings.description,
            model=settings.provider_model,
            supports=settings.supports,
        )

    def _of(self, name: str) -> ModelSettings:
        settings = self._settings.get(name)
        if settings is None:
            raise InvalidInput(f'unknown model "{name}" ({did_you_mean(name, self._names)})')
        return settings

    def _model(self, name: str, *, retries: bool) -> BaseChatModel:
        settings, key = self._of(name), (name, retries)
        built = self._built.get(key)
        if built is None:
            self._raise_remembered(key)
            built = self._built[key] = self._build(settings, key)
        return built

    def _build(self, settings: ModelSettings, key: tuple[str, bool]) -> BaseChatModel:
        try:
            model = construct(settings, self._environ, retries=key[1])
            model.metadata = {**(model.metadata or {}), MODEL_KEY: settings.name}
            return model
        except ModelError as error:
            self._failed[key] = (self._clock() + _FAILURE_REMEMBERED_S, error)
            raise

    def _raise_remembered(self, key: tuple[str, bool]) -> None:
        """A failed construction is remembered for a minute, not for ever (rule E2)."""
        until, error = self._failed.pop(key, (0.0, None))
        if error is not None and self._clock() < until:
            self._failed[key] = (until, error)
            # A new error each time: one that is raised again and again grows a longer traceback each time.
            raise type(error)(error.detail)

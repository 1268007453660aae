"""What runs tell the outside when they are over."""

from __future__ import annotations

from functools import cached_property

from prometheus_client import CollectorRegistry

from app.assembly.stores import Stores
from app.config import Settings
from app.services.webhooks.policy import WebhookPolicy
from app.services.webhooks.service import WebhookSender
from app.services.work_metrics import WebhookMetrics


class Hooks:
    """Whom runs may notify, and who does it. Raises ConfigError when the key of the signatures is not there."""

    def __init__(
        self, settings: Settings, environ: dict[str, str], stores: Stores, registry: CollectorRegistry
    ) -> None:
        self._settings = settings.webhooks
        self._stores = stores
        self._registry = registry
        self._key = settings.webhooks.key(environ)

    @cached_property
    def policy(self) -> WebhookPolicy:
        return WebhookPolicy(self._settings.allowed_hosts)

    @cached_property
    def sender(self) -> WebhookSender:
        return WebhookSender(
            self._stores.webhooks,
            self._stores.hub,
            self.policy,
            self._settings,
            self._key,
            WebhookMetrics(self._registry),
        )

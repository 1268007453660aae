"""Notifies webhooks of runs that are over: at least once each, tried again later, signed, never followed elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx
import orjson

from app.config import WebhookSettings
from app.persistence.cancellation import cancelled
from app.persistence.events import WEBHOOKS, EventHub
from app.persistence.outage import is_outage, one_line
from app.persistence.webhooks import Delivery, WebhookStore
from app.services.runs.service import public_kwargs
from app.services.webhooks.policy import WebhookPolicy, WebhookRefused, host_of
from app.services.work_metrics import WebhookMetrics
from app.telemetry import redact

# One slow receiver must not keep the others waiting.
CONCURRENCY = 4
# Deliveries are announced; this is for those that were not heard.
LONGEST_WAIT_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 3600.0
# A process that died in a delivery is given up this long after its time was over.
LEASE_SECONDS = 20.0
AFTER_ERROR_SECONDS = 5.0
DAY_SECONDS = 86_400.0
MAX_ERROR_CHARACTERS = 300
_RUN = (
    *("run_id", "thread_id", "assistant_id", "created_at", "updated_at", "status", "metadata"),
    *("multitask_strategy", "error"),
)

log = logging.getLogger(__name__)


class WebhookSender:
    """Sends what is owed, from any process. ``key`` signs; without one nothing is signed."""

    def __init__(
        self,
        store: WebhookStore,
        hub: EventHub,
        policy: WebhookPolicy,
        settings: WebhookSettings,
        key: bytes | None,
        metrics: WebhookMetrics,
    ) -> None:
        self._metrics = metrics
        self._store = store
        self._hub = hub
        self._policy = policy
        self._settings = settings
        self._key = key
        self._tasks: list[asyncio.Task[None]] = []
        self._client: httpx.AsyncClient | None = None

    def start(self) -> None:
        # Without pooled connections: one of a host would be used for another one at the same address.
        self._client = httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            timeout=self._settings.timeout_s,
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        self._tasks = [
            asyncio.create_task(self._send_for_ever(self._client), name="webhooks")
            for _ in range(CONCURRENCY)
        ]

    async def stop(self) -> None:
        """What is under way is cut off, and sent again by whoever works next."""
        await cancelled(*self._tasks)
        if self._client:
            await self._client.aclose()

    async def prune(self) -> None:
        """Forget what became of old deliveries."""
        await self._store.prune(self._settings.keep_days * DAY_SECONDS)

    async def _send_for_ever(self, client: httpx.AsyncClient) -> None:
        async with self._hub.watch(WEBHOOKS) as news:
            while True:
                news.clear()
                wait = await self._send_due(client)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(wait, LONGEST_WAIT_SECONDS)):
                        await news.wait()

    async def _send_due(self, client: httpx.AsyncClient) -> float:
        """Seconds until there is something to do again."""
        try:
            while delivery := await self._store.take(self._settings.timeout_s + LEASE_SECONDS):
                await self._deliver(client, delivery)
            wait = await self._store.next_due()
        except Exception as error:
            # Whatever stopped this round, the next one is needed.
            log.warning("webhooks cannot be sent: %s", one_line(error), exc_info=not is_outage(error))
            return AFTER_ERROR_SECONDS
        return LONGEST_WAIT_SECONDS if wait is None else wait

    async def _deliver(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        status: int | None = None
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                status = await self._post(client, delivery)
        except WebhookRefused as error:
            await self._give_up(delivery, None, str(error))
            return
        except Exception as error:  # noqa: BLE001 - whatever is wrong with this one, it counts as an attempt
            await self._try_later(delivery, None, _why(error))
            return
        if 200 <= status < 300:
            await self._store.delivered(delivery, status)
            self._metrics.count("delivered")
        else:
            await self._try_later(delivery, status, f"the receiver answered {status}")

    async def _post(self, client: httpx.AsyncClient, delivery: Delivery) -> int:
        """The status of the answer, whose body nobody reads. Tries each address of the host."""
        url = httpx.URL(delivery.url)
        addresses = await self._policy.addresses(url)
        body = body_of(delivery, datetime.now(UTC))
        headers = {**self._headers(delivery, body), "host": url.netloc.decode("ascii")}
        for address in addresses:
            request = client.build_request(
                "POST",
                url.copy_with(host=address),
                content=body,
                headers=headers,
                extensions={"sni_hostname": host_of(url), "timeout": client.timeout.as_dict()},
            )
            try:
                response = await client.send(request, stream=True)
            except httpx.ConnectError:
                if address == addresses[-1]:
                    raise
                continue
            await response.aclose()
            return response.status_code
        raise OSError("the host has no address")

    def _headers(self, delivery: Delivery, body: bytes) -> dict[str, str]:
        sent = str(int(time.time()))
        headers = {
            "content-type": "application/json",
            "user-agent": "threadkeep-webhooks",
            "x-threadkeep-delivery": delivery.delivery_id,
            "x-threadkeep-attempt": str(delivery.attempts),
            "x-threadkeep-timestamp": sent,
        }
        if self._key:
            headers["x-threadkeep-signature"] = f"sha256={signature(self._key, sent, body)}"
        return headers

    async def _try_later(self, delivery: Delivery, status: int | None, error: str) -> None:
        if delivery.attempts >= self._settings.attempts:
            await self._give_up(delivery, status, error)
            return
        pause = min(self._settings.backoff_s * 2 ** (delivery.attempts - 1), LONGEST_PAUSE_SECONDS)
        # Those that failed together do not come back together.
        await self._store.later(delivery, pause * random.uniform(0.8, 1.2), status, error)
        self._metrics.count("tried_again")

    async def _give_up(self, delivery: Delivery, status: int | None, error: str) -> None:
        self._metrics.count("given_up")
        log.warning(
            "the webhook of run %s is given up after %d attempts: %s",
            delivery.run["run_id"],
            delivery.attempts,
            error,
        )
        await self._store.failed(delivery, status, error)


def body_of(delivery: Delivery, now: datetime) -> bytes:
    """What is sent: the run, when it ran, and the thread's values at its end."""
    run: Mapping[str, Any] = delivery.run
    return orjson.dumps(
        {
            **{name: run[name] for name in _RUN},
            "kwargs": public_kwargs(run["kwargs"]),
            "run_started_at": run["started_at"],
            "run_ended_at": run["finished_at"],
            "webhook_sent_at": now,
            "values": orjson.Fragment(delivery.values) if delivery.values else None,
        }
    )


def signature(key: bytes, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over the time of sending, a full stop and the body: an old message cannot pass for a new one."""
    return hmac.new(key, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return "the receiver did not answer in time"
    return redact(f"{type(error).__name__}: {error}")[:MAX_ERROR_CHARACTERS]

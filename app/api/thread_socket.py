"""A WebSocket on a thread (v2): commands in; their answers and the frames of subscriptions out."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import uuid4

import orjson
from fastapi import WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from app.api.body import check_json
from app.api.deps import Services
from app.api.errors import DATABASE_GONE, status_of
from app.api.thread_commands import Command, answer, refusal
from app.api.thread_schemas import EventStreamRequest, Unsubscribe
from app.errors import InvalidInput, NotFound, ShuttingDown, ThreadkeepError
from app.serialization import dumps
from app.services.accounts.service import Caller
from app.services.ids import check_thread_id
from app.services.problems import validation_detail
from app.services.thread_events.filter import Subscription

# What the official clients take for the HTTP status that a request would have got, so that they know whether to try
# again.
_STATUS_CODES = 4000
_GOING_DOWN = 1012
_TRY_LATER = 1013
MAX_SUBSCRIPTIONS = 100

log = logging.getLogger(__name__)


class ThreadSocket:
    """One connection. It may be there before its thread is: the first command may make it."""

    def __init__(self, websocket: WebSocket, injected: Services, asking: Caller, thread_id: str) -> None:
        self._websocket = websocket
        self._injected = injected
        self._asking = asking
        self._thread_id = thread_id
        self._subscriptions: dict[str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Until either side closes."""
        await self._websocket.accept()
        try:
            check_thread_id(self._thread_id, strict=self._injected.strict_thread_ids)
            while True:
                await self._take(await self._received())
        except WebSocketDisconnect:
            pass
        except ThreadkeepError as error:
            await self._close(_STATUS_CODES + status_of(error), error.detail)
        finally:
            for task in self._subscriptions.values():
                task.cancel()
            await asyncio.gather(*self._subscriptions.values(), return_exceptions=True)

    async def _received(self) -> bytes:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text: str | None = message.get("text")
        return text.encode() if text is not None else message.get("bytes") or b""

    async def _take(self, raw: bytes) -> None:
        try:
            check_json(raw, self._injected.limits.message_bytes)
            given = Command.model_validate(orjson.loads(raw))
        except InvalidInput as error:
            await self._send(refusal(None, "invalid_argument", error.detail))
            return
        except ValidationError as error:
            await self._send(refusal(None, "invalid_argument", validation_detail(error.errors(), "command")))
            return
        try:
            # As many as somebody may make as requests.
            await self._injected.limits.request(self._asking.subject)
            await self._perform(given)
        except ValidationError as error:
            detail = validation_detail(error.errors(), "params")
            await self._send(refusal(given.id, "invalid_argument", detail))
        except InvalidInput as error:
            await self._send(refusal(given.id, "invalid_argument", error.detail))
        except NotFound as error:
            await self._send(refusal(given.id, "no_such_run", error.detail))
            raise
        except ThreadkeepError as error:
            await self._send(refusal(given.id, "unknown_error", error.detail))
        except DATABASE_GONE:
            text = "The database cannot be reached; try again in a moment"
            await self._send(refusal(given.id, "unknown_error", text))

    async def _perform(self, given: Command) -> None:
        match given.method:
            case "subscription.subscribe":
                await self._subscribe(given)
            case "subscription.unsubscribe":
                await self._unsubscribe(given)
            case "subscription.reconnect":
                text = "Subscribe again, with since"
                await self._send(refusal(given.id, "not_supported", text))
            case _:
                await self._send(await answer(self._injected, self._asking.owner, self._thread_id, given))

    async def _subscribe(self, given: Command) -> None:
        params = EventStreamRequest.model_validate(given.params)
        wanted = params.subscription("params")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise InvalidInput(f"params: a connection can have {MAX_SUBSCRIPTIONS} subscriptions")
        await self._injected.threads.get(self._asking.owner, self._thread_id)
        name = str(uuid4())
        await self._send({"type": "success", "id": given.id, "result": {"subscription_id": name}})
        self._subscriptions[name] = asyncio.create_task(
            self._follow(wanted, params.since), name="thread socket"
        )

    async def _unsubscribe(self, given: Command) -> None:
        name = Unsubscribe.model_validate(given.params).subscription_id
        task = self._subscriptions.pop(name, None)
        if task is None:
            await self._send(refusal(given.id, "no_such_subscription", f"There is no subscription {name!r}"))
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._send({"type": "success", "id": given.id, "result": {}})

    async def _follow(self, wanted: Subscription, since: int | None) -> None:
        try:
            async for frame in self._injected.thread_events.follow(self._thread_id, wanted, since):
                if frame is not None:
                    await self._websocket.send_text(frame.json().decode())
            await self._close(_STATUS_CODES + status_of(NotFound("")), "The thread was deleted")
        except ShuttingDown as error:
            await self._close(_GOING_DOWN, error.detail)
        except NotFound as error:
            await self._close(_STATUS_CODES + status_of(error), error.detail)
        except DATABASE_GONE:
            await self._close(_TRY_LATER, "The database cannot be reached")
        except WebSocketDisconnect:
            # The loop that reads is told as well, and ends the connection.
            pass

    async def _send(self, message: dict[str, Any]) -> None:
        await self._websocket.send_text(dumps(message).decode())

    async def _close(self, code: int, reason: str) -> None:
        try:
            # A reason has room for 123 bytes.
            await self._websocket.close(code, reason.encode()[:120].decode(errors="ignore"))
        except (RuntimeError, WebSocketDisconnect):
            log.debug("the WebSocket was closed already")

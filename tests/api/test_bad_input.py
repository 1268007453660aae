"""Bad input: a 4xx that names the field, never a 500, and nothing half-written."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from tests.api.conftest import MAX_BODY_BYTES
from tests.support.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = str(uuid.UUID(int=4))
MESSAGE = {"type": "human", "content": "x"}


def refused(response: httpx.Response, status: int, *parts: str) -> None:
    """The answer is an error in our form whose sentence holds every part."""
    answer = response.json()
    assert response.status_code == status, answer
    assert set(answer) == {"detail", "code"}
    assert response.headers["x-request-id"]
    assert len(answer["detail"]) < 1000
    for part in parts:
        assert part in answer["detail"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def thread_id(shared_http: httpx.AsyncClient) -> str:
    response = await shared_http.post("/threads")
    return str(response.json()["thread_id"])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"limit": 0}, "body.limit: Input should be greater than or equal to 1, got 0"),
        ({"limit": 1001}, "body.limit: Input should be less than or equal to 1000, got 1001"),
        ({"limit": "5"}, 'body.limit: Input should be a valid integer, got "5"'),
        ({"limit": True}, "body.limit: Input should be a valid integer, got true"),
        ({"offset": -1}, "body.offset: Input should be greater than or equal to 0, got -1"),
        ({"offset": 10**12}, "body.offset: Input should be less than or equal to"),
        ({"status": "sleepy"}, "body.status: Input should be 'idle', 'busy', 'interrupted' or 'error'"),
        ({"sort_by": "mood"}, "body.sort_by: Input should be"),
        ({"metadata": [1]}, "body.metadata: Input should be a valid dictionary, got [1]"),
        ({"ids": ["abc"]}, 'body.ids[0]: must be a UUID, got "abc"'),
        ({"ids": "abc"}, "body.ids: Input should be a valid list"),
        ({"select": ["mood"]}, "body.select[0]: Input should be"),
        ({"extract": {"a": "values..b"}}, "body.extract.a: must be a path like"),
        ({"extract": {str(n): "a" for n in range(11)}}, "body.extract: Dictionary should have at most 10"),
        ({"mood": 1}, "body.mood: there is no such field"),
        ({str(n): n for n in range(50)}, "and 47 more"),
    ],
)
async def test_a_wrong_search(shared_http: httpx.AsyncClient, body: Any, problem: str) -> None:
    refused(await shared_http.post("/threads/search", json=body), 422, problem)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"thread_id": "abc"}, 'body.thread_id: must be a UUID, got "abc"'),
        ({"thread_id": ""}, "body.thread_id: must be a UUID"),
        ({"thread_id": 5}, "body.thread_id: Input should be a valid string, got 5"),
        ({"thread_id": "{00000000-0000-4000-8000-000000000000}"}, "body.thread_id: must be a UUID"),
        ({"metadata": 5}, "body.metadata: Input should be a valid dictionary, got 5"),
        ({"if_exists": "maybe"}, "body.if_exists: Input should be 'raise' or 'do_nothing'"),
        ({"ttl": "soon"}, "body.ttl"),
        ({"supersteps": [{"updates": [{"values": {}}]}]}, "body.supersteps[0].updates[0].as_node"),
        ({"owner": "me"}, "body.owner: there is no such field"),
        ([], "body: Input should be"),
        ("text", "body: Input should be"),
    ],
)
async def test_a_wrong_thread(shared_http: httpx.AsyncClient, body: Any, problem: str) -> None:
    refused(await shared_http.post("/threads", json=body), 422, problem)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"values": 5}, "body.values: must be an object, a list of objects or null, got 5"),
        ({"values": [5]}, "body.values: must be an object, a list of objects or null"),
        ({"values": {"mood": 1}}, "values.mood: the state has no such key; known: messages"),
        ({"values": [{}, {"mood": 1}]}, "values[1].mood: the state has no such key"),
        ({"values": {"summary_text": "x"}}, "values.summary_text: only the service itself"),
        ({"values": {"messages": 5}}, "values.messages: must be a message, got 5"),
        (
            {"values": {"messages": [MESSAGE, MESSAGE, MESSAGE, {**MESSAGE, "content": 5}]}},
            "values.messages[3].content: must be a string",
        ),
        ({"values": {"messages": [{**MESSAGE, "id": 7}]}}, "values.messages[0].id: Input should be a valid"),
        (
            {"values": {"messages": [MESSAGE]}, "as_node": "nowhere"},
            "as_node: the graph has no node 'nowhere'",
        ),
        ({"values": {"messages": [MESSAGE]}, "as_node": "nowhere"}, "known: "),
        ({"values": {}, "as_node": 5}, "body.as_node: Input should be a valid string, got 5"),
        ({"values": {}, "checkpoint": {"thread_id": UNKNOWN}}, "body.checkpoint.thread_id:"),
        ({"values": {}, "checkpoint": {"mood": 1}}, "body.checkpoint.mood: there is no such field"),
        ({"values": {}, "checkpoint_id": "x" * 300}, "body.checkpoint_id:"),
        ({"value": {}}, "body.value: there is no such field"),
    ],
)
async def test_a_wrong_state_write_leaves_nothing(
    shared_http: httpx.AsyncClient, thread_id: str, body: Any, problem: str
) -> None:
    refused(await shared_http.post(f"/threads/{thread_id}/state", json=body), 422, problem)
    state = (await shared_http.get(f"/threads/{thread_id}/state")).json()
    assert (state["values"], state["checkpoint"]) == ({}, None)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"limit": 0}, "body.limit:"),
        ({"before": 5}, "body.before:"),
        ({"before": {"mood": 1}}, "body.before.mood: there is no such field"),
        ({"before": {}}, "body.before.checkpoint_id: this field is required"),
        ({"before": {"configurable": {"checkpoint_id": 5}}}, "body.before.checkpoint_id:"),
        ({"select": ["mood"]}, "body.select[0]: must be values.<key> or one of"),
        ({"select": ["values."]}, "body.select[0]: must be values.<key> or one of"),
        ({"checkpoint": {"thread_id": UNKNOWN}}, "body.checkpoint.thread_id:"),
    ],
)
async def test_a_wrong_history(
    shared_http: httpx.AsyncClient, thread_id: str, body: Any, problem: str
) -> None:
    refused(await shared_http.post(f"/threads/{thread_id}/history", json=body), 422, problem)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("state?subgraphs=maybe", "query.subgraphs: Input should be a valid boolean"),
        ("state?select=mood", "query.select[0]: must be values.<key> or one of"),
        ("state?mood=1", "query.mood: there is no such field"),
        ("history?limit=many", "query.limit: Input should be a valid integer"),
        ("history?limit=0", "query.limit: Input should be greater"),
        ("state?select=a%00b", "query.select: must not contain NUL characters"),
        ("state/a%00b", "path: must not contain NUL characters"),
    ],
)
async def test_a_wrong_query(shared_http: httpx.AsyncClient, thread_id: str, path: str, problem: str) -> None:
    refused(await shared_http.get(f"/threads/{thread_id}/{path}"), 422, problem)


@pytest.mark.parametrize("wrong", ["abc", "1", "a" * 5000, "%F0%9F%98%80", f"{UNKNOWN}x", "..%2f..%2fok"])
@pytest.mark.parametrize("rest", ["", "/state", "/history"])
async def test_a_thread_id_that_is_no_uuid(shared_http: httpx.AsyncClient, wrong: str, rest: str) -> None:
    response = await shared_http.get(f"/threads/{wrong}{rest}")
    if "%2f" in wrong:
        refused(response, 404)
    else:
        refused(response, 422, "thread_id: must be a UUID")


async def test_an_unknown_checkpoint_is_not_found(shared_http: httpx.AsyncClient, thread_id: str) -> None:
    refused(await shared_http.get(f"/threads/{thread_id}/state/{UNKNOWN}"), 404, UNKNOWN)
    refused(await shared_http.get(f"/threads/{thread_id}/state/nonsense"), 404, "nonsense")
    body = {"values": {"messages": [MESSAGE]}, "checkpoint_id": UNKNOWN}
    refused(await shared_http.post(f"/threads/{thread_id}/state", json=body), 404, UNKNOWN)
    body = {"checkpoint": {"checkpoint_ns": "nowhere:1", "checkpoint_id": None}}
    refused(await shared_http.post(f"/threads/{thread_id}/state/checkpoint", json=body), 404, "nowhere")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "body: is not valid JSON: unexpected end of data: line 1 column 2 (char 1)"),
        (b"nonsense", "body: is not valid JSON"),
        (b'{"metadata": {"a": NaN}}', "body: is not valid JSON"),
        (b'{"metadata": {"a": Infinity}}', "body: is not valid JSON"),
        (b'{"metadata": {"a": 1e999}}', "body: is not valid JSON"),
        (b'{"metadata": {"a": "\xff"}}', "body: is not valid JSON"),
        (b'{"metadata": {"a": "\x00"}}', "body: is not valid JSON"),
        ("{}".encode("utf-16"), "body: is not valid JSON"),
        (b'{"metadata": {"a": ["x", "\\u0000"]}}', "body.metadata.a[1]: must not contain NUL characters"),
        (b'{"metadata": {"a\\u0000": 1}}', "body.metadata: must not contain NUL characters"),
        (b'{"metadata": {"a": ["\\ud800 x"]}}', "body.metadata.a[0]: must not contain half a surrogate pair"),
        (b'{"metadata": {"\\uDC00": 1}}', "body.metadata: must not contain half a surrogate pair"),
        (b'{"metadata": ' + b'{"a":' * 500 + b"1" + b"}" * 501, "body: is nested in more than 200 levels"),
        (
            b'{"metadata": {"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}",
            "body: is not valid JSON: depth limit",
        ),
        (b"[" * 3_000_000, "body: is not valid JSON"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_what_is_not_json_that_can_be_kept(
    shared_http: httpx.AsyncClient, content: bytes, problem: str
) -> None:
    headers = {"content-type": "application/json"}
    refused(await shared_http.post("/threads", content=content, headers=headers), 422, problem)


async def test_an_escaped_backslash_before_u0000_is_plain_text(shared_http: httpx.AsyncClient) -> None:
    content = rb'{"metadata": {"a": "\\u0000", "b": "\ud83d\ude00"}}'
    response = await shared_http.post("/threads", content=content)
    assert response.json()["metadata"] == {"a": "\\u0000", "b": "😀"}


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/json; x=y"]
)
async def test_json_is_read_whatever_it_says_it_is(shared_http: httpx.AsyncClient, kind: str | None) -> None:
    headers = {"content-type": kind} if kind else {}
    response = await shared_http.post("/threads", content=b'{"metadata": {"a": 1}}', headers=headers)
    assert response.json()["metadata"] == {"a": 1}


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_a_page_of_another_site_cannot_make_a_browser_post(
    shared_http: httpx.AsyncClient, kind: str | None
) -> None:
    given = {"content-type": kind} if kind else {}
    for origin, status, said in (
        ("https://elsewhere.example", 403, "add the origin to server.cors_origins"),
        ("http://localhost:3000", 422, "header.content-type: must be application/json"),
    ):
        response = await shared_http.post("/threads", content=b"{}", headers={"origin": origin, **given})
        refused(response, status, said)


async def test_a_body_of_the_largest_size_is_accepted(shared_http: httpx.AsyncClient) -> None:
    frame = b'{"metadata": {"a": "%s"}}'
    content = frame % (b"x" * (MAX_BODY_BYTES - len(frame) + 2))
    assert len(content) == MAX_BODY_BYTES
    response = await shared_http.post("/threads", content=content)
    assert response.status_code == 200
    await shared_http.delete(f"/threads/{response.json()['thread_id']}")


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, MAX_BODY_BYTES * 4])
async def test_a_larger_body_is_refused_by_its_announced_size(
    shared_http: httpx.AsyncClient, size: int
) -> None:
    response = await shared_http.post("/threads", content=b"x" * size)
    refused(response, 413, f"body: larger than {MAX_BODY_BYTES} bytes")
    assert response.json()["code"] == "payload_too_large"


async def test_a_body_without_end_is_refused_while_it_is_still_being_sent(
    shared_gateway: Gateway,
) -> None:
    address = urlsplit(shared_gateway.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    async def send_for_ever() -> None:
        writer.write(b"POST /api/threads HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(chunk)
            await writer.drain()

    sending = asyncio.create_task(send_for_ever())
    async with asyncio.timeout(20):
        status = await reader.readline()
        head = await reader.readuntil(b"\r\n\r\n")
    sending.cancel()
    writer.close()
    assert status.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in head.lower()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("PUT", "/threads", 405, "method_not_allowed"),
        ("GET", f"/threads/{UNKNOWN}", 404, "not_found"),
        ("GET", f"/assistants/{UNKNOWN}", 404, "not_found"),
    ],
)
async def test_what_is_not_there_answers_in_the_same_form(
    shared_http: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    response = await shared_http.request(method, path)
    refused(response, status)
    assert response.json()["code"] == code


async def test_a_method_that_is_not_allowed_says_which_are(shared_http: httpx.AsyncClient) -> None:
    assert (await shared_http.put("/threads")).headers["allow"] == "POST"


async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing(
    shared_gateway: Gateway, shared_http: httpx.AsyncClient
) -> None:
    before = (await shared_http.post("/threads/count")).json()
    address = urlsplit(shared_gateway.url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b'POST /api/threads HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{"metadata"')
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await shared_http.get("/ok")).status_code == 200
    assert (await shared_http.post("/threads/count")).json() == before

"""How the service describes itself: the OpenAPI document, and a page that shows it to people."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.auth import OPEN_PATHS
from app.errors import InvalidInput

Document = dict[str, Any]

_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_FAILURES = {
    "4XX": {"description": "The request is wrong, or not allowed", "content": _ERROR},
    "5XX": {"description": "The service, its database or a model cannot do it now", "content": _ERROR},
}
_SCHEMAS: Document = {
    "Error": {
        "title": "Error",
        "type": "object",
        "required": ["detail", "code"],
        "properties": {
            "detail": {"type": "string", "description": "A sentence that names the field or the thing"},
            "code": {"type": "string", "description": "A stable word", "examples": [InvalidInput.code]},
        },
    }
}
_SECURITY: Document = {
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
_METHODS = ("get", "put", "post", "patch", "delete", "head", "options")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code{font:13px ui-monospace,monospace}h2{margin-top:2.5rem}details{border-top:1px solid #8886;padding:.4rem 0}"
    "summary{cursor:pointer}b{display:inline-block;width:4.5rem}table{border-collapse:collapse}"
    "td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
)
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
}


def install(app: FastAPI, prefix: str) -> None:
    """Make ``app`` describe itself with the form of its errors and the ways to say who asks."""
    app.openapi = _once(partial(_described, app, prefix))  # type: ignore[method-assign]


def page(document: Document) -> str:
    """All operations of the document as one page of HTML that loads nothing from anywhere."""
    title, version = (escape(str(document["info"][name])) for name in ("title", "version"))
    groups: dict[str, list[str]] = {}
    for path, method, operation in operations(document):
        group = (operation.get("tags") or ["other"])[0]
        groups.setdefault(group, []).append(_operation(path, method, operation))
    body = "".join(f"<h2>{escape(name)}</h2>{''.join(items)}" for name, items in groups.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} API</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title} API {version}</h1>"
        f'<p>With all schemas: <a href="openapi.json">openapi.json</a></p>{body}</body></html>'
    )


def operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    """Path, method in small letters, and description of each operation."""
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield path, method, item[method]


def _described(app: FastAPI, prefix: str) -> Document:
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes, tags=app.openapi_tags
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _SCHEMAS
    components["securitySchemes"] = _SECURITY
    for path, _, operation in operations(document):
        operation["responses"].pop("422", None)
        operation["responses"] |= _FAILURES
        if path.removeprefix(prefix) not in OPEN_PATHS:
            operation["security"] = [{"key": []}, {"bearer": []}, {}]
    return document


def _once(describe: Callable[[], Document]) -> Callable[[], Document]:
    known: list[Document] = []

    def openapi() -> Document:
        if not known:
            known.append(describe())
        return known[0]

    return openapi


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    text = escape(operation.get("description") or operation.get("summary") or "")
    rows = "".join(_parameter(parameter) for parameter in operation.get("parameters", ()))
    body = operation.get("requestBody", {}).get("content", {})
    names = ", ".join(sorted({_name(content.get("schema", {})) for content in body.values()} - {""}))
    sent = f"<tr><td>body</td><td><code>{escape(names)}</code></td><td></td></tr>" if names else ""
    return (
        f"<details><summary><b>{method.upper()}</b><code>{escape(path)}</code></summary>"
        f"<p>{text}</p><table>{rows}{sent}</table></details>"
    )


def _parameter(parameter: Mapping[str, Any]) -> str:
    name, where = escape(parameter["name"]), escape(parameter["in"])
    kind = escape(_name(parameter.get("schema", {})))
    needed = "required" if parameter.get("required") else ""
    return f"<tr><td>{where}</td><td><code>{name}</code></td><td>{kind} {needed}</td></tr>"


def _name(schema: Mapping[str, Any]) -> str:
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    if choices := schema.get("anyOf"):
        return " or ".join(filter(None, (_name(choice) for choice in choices)))
    return str(schema.get("type", ""))

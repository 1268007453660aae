"""Markdown of messages as HTML that a page may insert: whoever wrote it, it can run nothing and load nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

MAX_CHARACTERS = 100_000
"""A longer text is shown as it is: nobody reads it for its headings."""
MAX_LINE = 10_000
"""The same for a text with a longer line: the inline rules take more than linear time."""
CACHED = 512

_DATA_IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp|avif);base64,", re.IGNORECASE)
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "blockquote"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a", "img"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "img": {"src", "alt", "title"}, "ol": {"start"}, "code": {"class"}}


class _Renderer(RendererHTML):
    """An image from elsewhere becomes a link: loading it would tell others who reads what when."""

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Mapping[str, Any]) -> str:
        token = tokens[idx]
        source = str(token.attrs.get("src", ""))
        if _DATA_IMAGE.match(source):
            return str(super().image(tokens, idx, options, env))  # type: ignore[arg-type]
        text = token.content or source
        return f'<a href="{escape(source)}">{escape(text)}</a>'


_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer).enable(
    ["table", "strikethrough"]
)


@lru_cache(maxsize=CACHED)
def to_html(text: str) -> str:
    """The text as sanitised HTML: no script, no style, no handler, no frame; links open elsewhere and say nothing."""
    if len(text) > MAX_CHARACTERS or any(len(line) > MAX_LINE for line in text.splitlines()):
        return f"<pre>{escape(text)}</pre>"
    return nh3.clean(
        _MARKDOWN.render(text),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_filter,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def message_html(message: Mapping[str, Any]) -> str | None:
    """What a message, in the form of the API, says: rendered; None when it says nothing in words."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    said = "\n\n".join(text for text in texts if isinstance(text, str) and text)
    return to_html(said) if said else None


def _filter(tag: str, attribute: str, value: str) -> str | None:
    """Data is for images alone, and images are data alone."""
    is_data = value.strip().lower().startswith("data:")
    if tag == "img" and attribute == "src":
        return value if _DATA_IMAGE.match(value) else None
    if tag == "a" and attribute == "href" and is_data:
        return None
    if tag == "code" and attribute == "class" and not value.startswith("language-"):
        return None
    return value

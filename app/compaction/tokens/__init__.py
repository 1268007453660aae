"""Counting tokens: one counter for the trigger, the endpoints and the page (rules B1-B4)."""

from app.compaction.tokens.counter import TokenCounter, counter_for

__all__ = ["TokenCounter", "counter_for"]

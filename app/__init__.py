"""Threadkeep: an HTTP gateway for LangGraph threads that never run out of context."""

__version__ = "0.1.0"

"""Threadkeep: an HTTP gateway for LangGraph threads that never run out of context."""

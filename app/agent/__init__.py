"""Agents: how they are built, their state, tools and middleware."""

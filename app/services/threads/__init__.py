"""Threads: their life, their state, their whole conversation."""

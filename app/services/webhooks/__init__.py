"""Telling others that a run is over."""

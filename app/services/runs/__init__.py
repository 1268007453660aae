"""Runs: started, executed, followed."""

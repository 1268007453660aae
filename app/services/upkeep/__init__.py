"""What grows and what goes: storage, pruning, retention, erasure."""

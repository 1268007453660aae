"""Compaction as people and runs use it: by itself, by hand, previewed, taken back."""

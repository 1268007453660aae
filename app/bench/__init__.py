"""How fast a compaction is and what it saves, measured beside what others do in the same run."""

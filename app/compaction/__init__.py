"""The compaction library: pure functions and values on LangChain messages. No HTTP, no LangGraph, no SQL."""

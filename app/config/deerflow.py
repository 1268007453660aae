"""What a DeerFlow config.yaml holds beyond our own sections: accepted, without effect here (rule A1)."""

from __future__ import annotations

import difflib
from typing import Any

# fmt: off
IGNORED_SECTIONS = frozenset({
    "acp_agents", "agent_storage", "agents_api", "authorization", "channel_connections",
    "channels", "checkpointer", "circuit_breaker", "config_version", "dedupe_storage", "extensions",
    "guardrails", "input_polish", "llm_call", "log_level", "loop_detection", "max_recursion_limit",
    "mcp_tasks", "read_before_write", "run_events", "run_ownership",
    "safety_finish_reason", "sandbox", "scheduler", "skill_evolution", "skill_scan",
    "stream_bridge", "suggestions", "token_budget", "token_usage",
    "tool_groups", "tool_progress", "tool_search", "tools", "uploads",
})

# Sections that both projects have, and the keys in them that are DeerFlow's.
_IGNORED_KEYS = {
    "database": frozenset({
        "backend", "sqlite_dir", "postgres_url", "postgres_schema", "echo_sql", "pool_size",
        "pool_recycle", "command_timeout", "checkpoint_channel_mode", "checkpoint_delta",
        "checkpoint_graph_cache", "checkpoint_cache",
    }),
    "logging": frozenset({"enhance"}),
    "subagents": frozenset({
        "timeout_seconds", "max_turns", "max_total_per_run", "token_budget", "agents", "custom_agents",
    }),
    "memory": frozenset({
        "mode", "injection_enabled", "shutdown_flush_timeout_seconds", "manager_class", "backend_config",
        "retrieval_strategy", "retrieval_relevance_weight", "retrieval_confidence_weight",
        "retrieval_diversity_weight", "retrieval_top_k", "retrieval_duplicate_threshold", "storage_path",
        "storage_class", "debounce_seconds", "fact_confidence_threshold", "max_injection_tokens",
        "token_counting", "guaranteed_categories", "guaranteed_token_budget", "staleness_review_enabled",
        "staleness_age_days", "staleness_min_candidates", "staleness_max_removals_per_cycle",
        "staleness_protected_categories", "staleness_max_lifetime_multiplier",
        "staleness_max_extension_days", "consolidation_enabled", "consolidation_min_facts",
        "consolidation_max_groups_per_cycle", "consolidation_max_sources",
    }),
    "title": frozenset({"prompt_template"}),
    "tool_output": frozenset({
        "externalize_min_chars", "preview_head_chars", "preview_tail_chars", "fallback_max_chars",
        "fallback_head_chars", "fallback_tail_chars", "storage_subdir", "exempt_tools", "tool_overrides",
        "max_bytes",
    }),
}
# fmt: on

# Sections of which these keys are ours; what is no misspelling of one of them is DeerFlow's.
_OWN_KEYS = {"skills": ("path", "container_path")}
_OWN_AUTH_KEYS = ("type", "jwt")

_LEGACY_KEYS = frozenset(
    {
        "preserve_recent_skill_count",
        "preserve_recent_skill_tokens",
        "preserve_recent_skill_tokens_per_skill",
    }
)


def without_foreign_keys(document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The document without what is DeerFlow's alone, and one warning for each kind of thing left out."""
    kept = {key: value for key, value in document.items() if key not in IGNORED_SECTIONS}
    ignored = [key for key in document if key in IGNORED_SECTIONS]
    foreign_keys = {section: _unlike(own, kept.get(section)) for section, own in _OWN_KEYS.items()}
    foreign_keys["auth"] = _foreign_auth(kept.get("auth"))
    for section, foreign in {**_IGNORED_KEYS, **foreign_keys}.items():
        kept, dropped = _without(kept, section, foreign)
        ignored += dropped
    kept, legacy = _without(kept, "summarization", _LEGACY_KEYS)
    warnings = []
    if ignored:
        warnings.append(f"settings of DeerFlow without effect here are ignored: {', '.join(ignored)}")
    if legacy:
        warnings.append(f"legacy settings are accepted and have no effect: {', '.join(legacy)}")
    return kept, warnings


def _foreign_auth(content: Any) -> frozenset[str]:
    """All keys of a section that holds nothing of ours. One that does is read strictly: what protects the service must
    not be overlooked."""
    keys = _unlike(_OWN_AUTH_KEYS, content)
    return keys if isinstance(content, dict) and len(keys) == len(content) else frozenset()


def _unlike(own: tuple[str, ...], content: Any) -> frozenset[str]:
    """The keys of a section that nobody can have meant as one of ``own``."""
    keys = content if isinstance(content, dict) else ()
    return frozenset(key for key in keys if not difflib.get_close_matches(str(key), own, n=1))


def _without(
    document: dict[str, Any], section: str, foreign: frozenset[str]
) -> tuple[dict[str, Any], list[str]]:
    content = document.get(section)
    if not isinstance(content, dict):
        return document, []
    dropped = [f"{section}.{key}" for key in content if key in foreign]
    kept = {key: value for key, value in content.items() if key not in foreign}
    return {**document, section: kept}, dropped

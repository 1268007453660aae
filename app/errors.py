"""Every error raised on purpose, as one tree.

An error has a stable machine-readable ``code`` (part of the public contract) and a sentence for people.
No HTTP here: which status a class answers with is one table in ``app/api/errors.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ThreadkeepError(Exception):
    """Base of all errors raised on purpose. ``code`` is stable; ``str(error)`` is for people."""

    code: str = "internal_error"

    def __init__(self, detail: str, *, code: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        if code is not None:
            self.code = code


class ConfigError(ThreadkeepError):
    """A configuration value is wrong. The text names the key, the value and what is allowed."""

    code = "invalid_config"


class InvalidInput(ThreadkeepError):
    """A request value does not validate. The text names the field and the value."""

    code = "invalid_request"


class BadRequest(ThreadkeepError):
    """A request is well-formed but contradicts itself (for example ``configurable`` and ``context`` together)."""

    code = "bad_request"


class PayloadTooLarge(ThreadkeepError):
    """A request body is larger than the configured limit."""

    code = "payload_too_large"


class NotFound(ThreadkeepError):
    """The named thing does not exist, or belongs to somebody else (the same answer on purpose)."""

    code = "not_found"


class Unauthorized(ThreadkeepError):
    """Nobody known asks: no key, or one that is wrong, expired or revoked (the text does not say which)."""

    code = "unauthorized"


class AuthUnavailable(ThreadkeepError):
    """Who asks cannot be told now: the keys of the token's issuer cannot be read."""

    code = "auth_unavailable"


class Forbidden(ThreadkeepError):
    """Whoever asks is known and may not do this: it is for administrators, or for pages of other origins."""

    code = "forbidden"


class RateLimited(ThreadkeepError):
    """An owner has had what the limits allow for now. ``retry_after_s``: when to ask again, in whole seconds."""

    code = "rate_limited"

    def __init__(self, detail: str, *, retry_after_s: int = 5, code: str | None = None) -> None:
        super().__init__(detail, code=code)
        self.retry_after_s = retry_after_s


class BudgetExhausted(ThreadkeepError):
    """A run has used the tokens it may; it stops before its next model call."""

    code = "budget_exhausted"


class Conflict(ThreadkeepError):
    """The request cannot be done in the present state of the thing it names."""

    code = "conflict"


class ThreadBusy(Conflict):
    """Somebody else writes to this thread: a run is pending or running, or a compaction is at work."""

    code = "thread_busy"


class ThreadInterrupted(Conflict):
    """The thread waits for an answer that the operation would lose."""

    code = "thread_interrupted"


class CompactionDisabled(Conflict):
    """``summarization.enabled`` is false."""

    code = "compaction_disabled"


class MessagePinned(Conflict):
    """A message that would be removed is pinned (rule C4)."""

    code = "message_pinned"


class MessageArchived(Conflict):
    """The message is no longer in the thread's state: a compaction removed it."""

    code = "message_archived"


class PinBudgetExceeded(Conflict):
    """The pins of a thread would hold more than ``summarization.pin_budget_tokens``. The text has the numbers."""

    code = "pin_budget_exceeded"


class DraftStale(Conflict):
    """What a draft of a compaction covers is not what it was. The text says what changed."""

    code = "draft_stale"


class DraftExpired(Conflict):
    """The draft of a compaction is older than ``summarization.draft_ttl_hours``."""

    code = "draft_expired"


class DraftApplied(Conflict):
    """The draft has been applied, or just is."""

    code = "draft_applied"


class NotADraft(Conflict):
    """The compaction is one that was made, not a draft of one."""

    code = "not_a_draft"


class SummaryGenerationError(ThreadkeepError):
    """No candidate model produced an acceptable summary. Nothing was changed.

    ``models_tried`` are the candidates' attempts (``app.compaction.types.ModelAttempt``), ``usage`` what they cost.
    """

    code = "summary_generation_failed"

    def __init__(
        self,
        detail: str,
        *,
        models_tried: Sequence[Any] = (),
        usage: Mapping[str, int] | None = None,
        duration_ms: int = 0,
    ) -> None:
        super().__init__(detail)
        self.models_tried = tuple(models_tried)
        self.usage = dict(usage or {})
        self.duration_ms = duration_ms


class SummaryTimeout(SummaryGenerationError):
    """The deadline of the whole compaction ended it. Nothing was changed."""

    code = "summary_timeout"


class CompactionInvariantError(ThreadkeepError):
    """A planned compaction would break the history (rule C7). It is not committed; the text names what is wrong."""

    code = "compaction_invariant"


class ModelError(ThreadkeepError):
    """The chat model could not be built or its call failed."""

    code = "model_error"


class ModelUnavailable(ModelError):
    """A configured model cannot be used, for example because its key is not set."""

    code = "model_unavailable"


class ContextOverflow(ModelError):
    """The request does not fit the model's context window. The text names what fills it."""

    code = "context_overflow"


class DatabaseError(ThreadkeepError):
    """The database cannot be reached or prepared. The text is one line that says why."""

    code = "database_unavailable"


class ShuttingDown(ThreadkeepError):
    """This process is going down; what was asked for goes on elsewhere and can be asked for again."""

    code = "shutting_down"


class RunTimeout(ThreadkeepError):
    """A run took longer than ``runs.timeout_s``."""

    code = "run_timeout"


class TurnLimitReached(ThreadkeepError):
    """A subagent made as many model calls as it may and has no result."""

    code = "turn_limit"


class McpServerError(ThreadkeepError):
    """An MCP server cannot be used now. The text says why, without secrets."""

    code = "mcp_server_error"


class WorkspaceError(ThreadkeepError):
    """A file operation is refused or failed. The text is for the model and says nothing of the host."""

    code = "workspace_error"

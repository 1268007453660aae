"""Threads, their runs and events, compactions, and the archive of removed messages."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

THREADS = """
CREATE TABLE threads (
    thread_id text PRIMARY KEY,
    owner text NOT NULL DEFAULT '',
    metadata jsonb NOT NULL DEFAULT '{}',
    config jsonb NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'idle' CHECK (status IN ('idle', 'busy', 'interrupted', 'error')),
    "values" jsonb,
    interrupts jsonb NOT NULL DEFAULT '{}',
    error jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    state_updated_at timestamptz,
    deleted_at timestamptz,
    reserved_by uuid,
    reserved_until timestamptz,
    compaction_failures int NOT NULL DEFAULT 0,
    compaction_retry_at timestamptz,
    compaction_last_error text,
    last_compaction_id uuid
);
COMMENT ON COLUMN threads."values" IS 'small channel values for search; never messages';
COMMENT ON COLUMN threads.reserved_by IS 'the one writer that holds this thread until reserved_until';
CREATE INDEX threads_metadata ON threads USING gin (metadata jsonb_path_ops);
CREATE INDEX threads_recent ON threads (owner, updated_at DESC, thread_id);
"""

RUNS = """
CREATE TABLE runs (
    run_id uuid PRIMARY KEY,
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    position bigint GENERATED ALWAYS AS IDENTITY,
    assistant_id text NOT NULL,
    status text NOT NULL
        CHECK (status IN ('pending', 'running', 'success', 'error', 'timeout', 'interrupted')),
    kwargs jsonb NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    multitask_strategy text NOT NULL,
    attempt int NOT NULL DEFAULT 0,
    handed_back int NOT NULL DEFAULT 0,
    job_id bigint,
    cancel_action text CHECK (cancel_action IN ('interrupt', 'rollback')),
    worker text,
    error jsonb,
    usage jsonb,
    checkpoint_before text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz
);
CREATE UNIQUE INDEX runs_one_running ON runs (thread_id) WHERE status = 'running';
CREATE INDEX runs_of_thread ON runs (thread_id, position DESC);
CREATE INDEX runs_open ON runs (status) WHERE status IN ('pending', 'running');

CREATE TABLE run_events (
    run_id uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    event text NOT NULL,
    data text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, seq)
);
"""

COMPACTIONS = """
CREATE TABLE compactions (
    compaction_id uuid PRIMARY KEY,
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    position bigint GENERATED ALWAYS AS IDENTITY,
    run_id uuid,
    kind text NOT NULL CHECK (kind IN ('auto', 'manual', 'overflow')),
    status text NOT NULL
        CHECK (status IN ('committing', 'committed', 'draft', 'skipped', 'failed', 'undone', 'rolled_back')),
    reason text,
    model_name text,
    models_tried jsonb NOT NULL DEFAULT '[]',
    trigger text,
    tokens_before int,
    tokens_after int,
    removed_message_count int,
    preserved_message_count int,
    coverage double precision,
    duration_ms int,
    usage jsonb,
    checkpoint_before text,
    checkpoint_after text,
    instructions text,
    error text,
    summary_text text,
    extractive boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX compactions_of_thread ON compactions (thread_id, position DESC);
"""

# ``message`` is text, not jsonb: the archive gives back what it got byte for byte, and jsonb refuses \u0000.
ARCHIVE = """
CREATE TABLE archived_messages (
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    message_id text NOT NULL,
    digest text NOT NULL,
    compaction_id uuid NOT NULL,
    position bigint NOT NULL,
    run_id uuid,
    message text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (thread_id, message_id, digest)
);
CREATE INDEX archived_messages_in_order ON archived_messages (thread_id, position);
"""

# Procrastinate does not record which of its own migrations a database has had, so this table does.
QUEUE_MIGRATIONS = """
CREATE TABLE queue_migrations (
    name text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""


def upgrade() -> None:
    connection = op.get_bind()
    for statements in (THREADS, RUNS, COMPACTIONS, ARCHIVE, QUEUE_MIGRATIONS):
        connection.exec_driver_sql(statements)

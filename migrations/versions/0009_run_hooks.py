"""What happens around runs: webhooks, threads that live as long as a run, the order of a thread's stream."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TEMPORARY = """
ALTER TABLE threads ADD COLUMN temporary boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN threads.temporary IS 'made for a stateless run and removed when that is over';
CREATE INDEX threads_temporary ON threads (thread_id) WHERE temporary;
"""

# Runs get their place when they begin, not when they are admitted: a delayed one begins after later ones.
STREAM = """
CREATE SEQUENCE thread_stream_positions;
ALTER TABLE runs ADD COLUMN stream_position bigint;
UPDATE runs SET stream_position = position;
SELECT setval('thread_stream_positions', coalesce(max(position), 0) + 1) FROM runs;
CREATE INDEX runs_in_stream ON runs (thread_id, stream_position) WHERE stream_position IS NOT NULL;

CREATE TABLE thread_state_updates (
    position bigint PRIMARY KEY DEFAULT nextval('thread_stream_positions'),
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    checkpoint_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX thread_state_updates_in_stream ON thread_state_updates (thread_id, position);
"""

# ``kept_thread`` is null for a temporary thread: what is owed to its webhook outlives it.
WEBHOOKS = """
ALTER TABLE runs ADD COLUMN webhook text;

CREATE TABLE webhook_deliveries (
    delivery_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    run_id uuid NOT NULL UNIQUE,
    thread_id text NOT NULL,
    kept_thread text REFERENCES threads ON DELETE CASCADE,
    url text NOT NULL,
    run jsonb NOT NULL,
    "values" text,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts int NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    last_status int,
    last_error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_over ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX webhook_deliveries_of_thread ON webhook_deliveries (kept_thread);
"""


def upgrade() -> None:
    connection = op.get_bind()
    for statements in (TEMPORARY, STREAM, WEBHOOKS):
        connection.exec_driver_sql(statements)

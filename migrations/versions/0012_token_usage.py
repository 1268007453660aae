"""What each model call used, by thread and caller. Compactions keep theirs in their own records."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

USAGE = """
CREATE TABLE token_usage (
    call_id uuid PRIMARY KEY,
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    run_id uuid,
    caller text NOT NULL CHECK (caller IN ('lead_agent', 'subagent', 'title', 'memory')),
    model_name text NOT NULL,
    message_id text,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    total_tokens bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN token_usage.message_id IS 'the answer, which tells whose run it is from';
CREATE INDEX token_usage_of_thread ON token_usage (thread_id);
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(USAGE)

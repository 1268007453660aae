"""A compaction inside a run, such as a subagent's, is not one of the thread: each says whose messages it removed."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

WHOSE = """
ALTER TABLE compactions
    ADD COLUMN checkpoint_ns text NOT NULL DEFAULT '',
    ADD COLUMN agent_name text;
COMMENT ON COLUMN compactions.checkpoint_ns IS
    'empty: the thread''s own conversation; else that of a subagent, whose checkpoints have the same namespace';
DROP INDEX compactions_of_thread;
CREATE INDEX compactions_of_thread ON compactions (thread_id, checkpoint_ns, position DESC);

ALTER TABLE archived_messages
    ADD COLUMN checkpoint_ns text NOT NULL DEFAULT '',
    DROP CONSTRAINT archived_messages_pkey,
    ADD PRIMARY KEY (thread_id, checkpoint_ns, message_id, digest);
DROP INDEX archived_messages_in_order;
CREATE INDEX archived_messages_in_order ON archived_messages (thread_id, checkpoint_ns, position);
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(WHOSE)

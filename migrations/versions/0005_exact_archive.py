"""The archive keeps messages exactly, and records say what stood where: the whole conversation, undo and redo."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# A copied thread keeps its compaction ids, because they stand inside its checkpoints.
COMPACTIONS = """
ALTER TABLE compactions
    DROP CONSTRAINT compactions_pkey,
    ADD PRIMARY KEY (thread_id, compaction_id),
    DROP CONSTRAINT compactions_kind_check,
    ADD CONSTRAINT compactions_kind_check CHECK (kind IN ('auto', 'manual', 'overflow', 'undo', 'redo')),
    ADD COLUMN seen_ids text[] NOT NULL DEFAULT '{}',
    ADD COLUMN previous_id uuid,
    ADD COLUMN target_id uuid;
COMMENT ON COLUMN compactions.seen_ids IS
    'ids of all messages that were in the state, removed and kept ones, in their order; empty: not known';
COMMENT ON COLUMN compactions.previous_id IS 'the record whose marker stood in the state before: the chain';
COMMENT ON COLUMN compactions.target_id IS 'the compaction that an undo takes back or a redo repeats';
UPDATE compactions c SET previous_id = o.previous_id
FROM (
    SELECT thread_id, compaction_id,
           lag(compaction_id) OVER (PARTITION BY thread_id, checkpoint_ns ORDER BY position) AS previous_id
    FROM compactions WHERE status = 'committed'
) o
WHERE o.thread_id = c.thread_id AND o.compaction_id = c.compaction_id;
"""

ARCHIVE = """
ALTER TABLE archived_messages ADD COLUMN original bytea;
COMMENT ON COLUMN archived_messages.original IS
    'the message as a checkpoint holds it (msgpack of LangGraph''s serializer); null: only its JSON is known';
"""


def upgrade() -> None:
    connection = op.get_bind()
    for statements in (COMPACTIONS, ARCHIVE):
        connection.exec_driver_sql(statements)

"""Records of undos and redos say that they were taken back, as those of compactions do."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

# What came later of the same compaction took back what had been before it.
TOLD = """
UPDATE compactions c SET status = 'undone' FROM compactions t
WHERE t.thread_id = c.thread_id AND t.compaction_id = c.target_id AND c.status = 'committed'
  AND ((c.kind = 'redo' AND t.status = 'undone') OR (c.kind = 'undo' AND t.status = 'committed')
       OR EXISTS (SELECT 1 FROM compactions n
                  WHERE n.thread_id = c.thread_id AND n.target_id = c.target_id AND n.status = 'committed'
                    AND n.position > c.position));
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(TOLD)

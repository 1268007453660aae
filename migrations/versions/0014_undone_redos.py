"""Records of undos and redos say that they were taken back, as those of compactions do."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TOLD = """
UPDATE compactions c SET status = 'undone' FROM compactions t
WHERE t.thread_id = c.thread_id AND t.compaction_id = c.target_id AND c.status = 'committed'
  AND ((c.kind = 'redo' AND t.status = 'undone') OR (c.kind = 'undo' AND t.status = 'committed'));
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(TOLD)

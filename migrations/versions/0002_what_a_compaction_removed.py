"""Each compaction knows which archived messages it removed: a message can be removed more than once."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

REMOVED = """
ALTER TABLE compactions
    ADD COLUMN removed_ids text[] NOT NULL DEFAULT '{}',
    ADD COLUMN removed_digests text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN compactions.removed_ids IS 'with removed_digests: keys of archived_messages, in order';
UPDATE compactions c SET removed_ids = a.ids, removed_digests = a.digests
FROM (
    SELECT compaction_id, array_agg(message_id ORDER BY position) AS ids,
           array_agg(digest ORDER BY position) AS digests
    FROM archived_messages GROUP BY compaction_id
) a
WHERE a.compaction_id = c.compaction_id;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(REMOVED)

"""What a compaction removes is written down at once and sorted into the archive later."""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# Uncompressed: a compaction waits for it, the server's compression is four times as slow as the writing, and what is
# here is gone a moment later.
PACKS = """
CREATE TABLE archive_packs (
    thread_id text NOT NULL,
    compaction_id uuid NOT NULL,
    number int NOT NULL,
    messages bytea NOT NULL,
    PRIMARY KEY (thread_id, compaction_id, number),
    FOREIGN KEY (thread_id, compaction_id) REFERENCES compactions ON DELETE CASCADE
);
COMMENT ON TABLE archive_packs IS 'removed messages that are still to be sorted into archived_messages';
COMMENT ON COLUMN archive_packs.messages IS 'a list of messages, as a checkpoint would hold it';
ALTER TABLE archive_packs ALTER COLUMN messages SET STORAGE EXTERNAL;
COMMENT ON COLUMN compactions.removed_digests IS 'of removed_ids, as far as those are in archived_messages';
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(PACKS)

"""Which messages memory has read, so that what was deleted does not come back when they are looked at again."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

READ = """
CREATE TABLE memory_read (
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    digest text NOT NULL,
    read_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (thread_id, digest)
);
COMMENT ON COLUMN memory_read.digest IS 'of the id and the words of one message: an edited one is read again';
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(READ)

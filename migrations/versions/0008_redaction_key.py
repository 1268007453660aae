"""The key of placeholders, the same in every process of an installation; when a thread was pruned."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# Made by the database, so that processes that start together have the same one.
KEYS = """
CREATE TABLE installation_keys (
    name text PRIMARY KEY,
    value bytea NOT NULL
);
INSERT INTO installation_keys (name, value)
VALUES ('redaction', uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
"""

PRUNED = """
ALTER TABLE threads ADD COLUMN pruned_at timestamptz;
COMMENT ON COLUMN threads.pruned_at IS 'nothing to prune since then, unless something happened on the thread';
"""


def upgrade() -> None:
    connection = op.get_bind()
    for statements in (KEYS, PRUNED):
        connection.exec_driver_sql(statements)

"""The key of placeholders: the same secret gets the same one in every process of an installation."""

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


def upgrade() -> None:
    op.get_bind().exec_driver_sql(KEYS)

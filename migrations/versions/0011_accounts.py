"""Accounts: keys that people show, and what each owner has used on a day."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

KEYS = """
CREATE TABLE api_keys (
    key_id text PRIMARY KEY,
    digest bytea NOT NULL,
    owner text NOT NULL,
    admin boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);
COMMENT ON COLUMN api_keys.digest IS 'SHA-256 of the whole key, which is kept nowhere';
COMMENT ON COLUMN api_keys.key_id IS 'a part of the key that is no secret';
"""

# Not the sum over an owner's runs: it must not become smaller when a thread is deleted.
USED = """
CREATE TABLE owner_tokens (
    owner text NOT NULL,
    day date NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (owner, day)
);
"""


def upgrade() -> None:
    connection = op.get_bind()
    for statements in (KEYS, USED):
        connection.exec_driver_sql(statements)

"""Assistants that clients create, and every version they had."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(_SQL)


_SQL = """
CREATE TABLE assistants (
    assistant_id uuid PRIMARY KEY,
    owner text NOT NULL,
    version integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX assistants_owner ON assistants (owner, created_at);

CREATE TABLE assistant_versions (
    assistant_id uuid NOT NULL REFERENCES assistants ON DELETE CASCADE,
    version integer NOT NULL,
    graph_id text NOT NULL,
    name text NOT NULL,
    description text,
    config jsonb NOT NULL,
    context jsonb NOT NULL,
    metadata jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (assistant_id, version)
);
"""

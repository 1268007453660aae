"""Messages that compactions leave alone, and what drafts of compactions rest on."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

PINS = """
CREATE TABLE pins (
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    message_id text NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (thread_id, message_id)
);
COMMENT ON COLUMN pins.position IS 'of pins set at once, the later ones have to fit in beside the earlier ones';
"""

# No text of any message: a draft is its record in compactions, and this is what that record may be applied to.
DRAFTS = """
CREATE TABLE compaction_drafts (
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    compaction_id uuid NOT NULL,
    graph_name text NOT NULL,
    message_ids text[] NOT NULL,
    message_digests text[] NOT NULL,
    message_fates text[] NOT NULL,
    waived_pins text[] NOT NULL,
    summary_digest text,
    marker text,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (thread_id, compaction_id)
);
COMMENT ON COLUMN compaction_drafts.message_fates IS 'removed, kept or dropped, for each message';
COMMENT ON COLUMN compaction_drafts.waived_pins IS 'pinned messages among the removed: over the budget';
COMMENT ON COLUMN compaction_drafts.marker IS 'the compaction that the state was the result of';
CREATE INDEX compaction_drafts_expiring ON compaction_drafts (expires_at);

ALTER TABLE compactions ADD COLUMN edited boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN compactions.edited IS 'a person changed the summary that a model had written';
"""


def upgrade() -> None:
    connection = op.get_bind()
    for statements in (PINS, DRAFTS):
        connection.exec_driver_sql(statements)

"""Archived messages can be searched: an index of their words, and of the words themselves."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Both are in PostgreSQL's contrib and trusted: whoever owns the database may create them.
EXTENSIONS = """
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS btree_gin;
"""

# The thread is part of each index, so that a search costs what its own thread holds and not what all hold.
WORDS = """
CREATE TABLE recall_words (
    thread_id text NOT NULL,
    checkpoint_ns text NOT NULL DEFAULT '' CHECK (checkpoint_ns = ''),
    message_id text NOT NULL,
    digest text NOT NULL,
    part int NOT NULL,
    position bigint NOT NULL,
    reference text NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (thread_id, message_id, digest, part),
    FOREIGN KEY (thread_id, checkpoint_ns, message_id, digest) REFERENCES archived_messages ON DELETE CASCADE
);
COMMENT ON TABLE recall_words IS 'the words of archived messages of the thread''s own conversation';
COMMENT ON COLUMN recall_words.part IS 'a long message has several: a tsvector holds no more than a megabyte';
CREATE INDEX recall_words_of_thread ON recall_words USING gin (thread_id, words) WITH (fastupdate = off);
CREATE INDEX recall_words_in_order ON recall_words (thread_id, position);
CREATE INDEX recall_words_reference ON recall_words (thread_id, reference);

CREATE TABLE recall_terms (
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    term text NOT NULL,
    PRIMARY KEY (thread_id, term)
);
COMMENT ON TABLE recall_terms IS 'every longer word of a thread once: found by a piece of it, or misspelt';
CREATE INDEX recall_terms_of_thread ON recall_terms USING gin (thread_id, term gin_trgm_ops)
    WITH (fastupdate = off);
"""

# What is archived waits here and is indexed outside of the compaction's transaction, which must be short and must not
# fail by what a message holds. A trigger, since messages come into the archive in more than one way; one row for all
# that a statement archives, since a compaction waits for it.
PENDING = """
CREATE TABLE recall_pending (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL
);
COMMENT ON TABLE recall_pending IS 'archived messages, by their positions, that are not indexed yet';
CREATE INDEX recall_pending_of_thread ON recall_pending (thread_id, last_position);

CREATE FUNCTION recall_archived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recall_pending (thread_id, first_position, last_position)
    SELECT thread_id, min(position), max(position) FROM added WHERE checkpoint_ns = '' GROUP BY thread_id;
    RETURN NULL;
END;
$$;
CREATE TRIGGER recall_archived AFTER INSERT ON archived_messages
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION recall_archived();

-- Words of messages that are gone must not stay. Where the thread itself goes, all of it goes with it.
CREATE FUNCTION recall_erased() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    touched text[] := array(
        SELECT DISTINCT g.thread_id FROM gone g JOIN threads t ON t.thread_id = g.thread_id
        WHERE g.checkpoint_ns = '');
BEGIN
    DELETE FROM recall_terms WHERE thread_id = ANY (touched);
    INSERT INTO recall_pending (thread_id, first_position, last_position)
    SELECT thread_id, min(position), max(position) FROM archived_messages
    WHERE thread_id = ANY (touched) AND checkpoint_ns = '' GROUP BY thread_id;
    RETURN NULL;
END;
$$;
CREATE TRIGGER recall_erased AFTER DELETE ON archived_messages
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION recall_erased();

INSERT INTO recall_pending (thread_id, first_position, last_position)
SELECT thread_id, min(position), max(position) FROM archived_messages WHERE checkpoint_ns = '' GROUP BY thread_id;
"""


def upgrade() -> None:
    connection = op.get_bind()
    for statements in (EXTENSIONS, WORDS, PENDING):
        connection.exec_driver_sql(statements)

"""The longer statements about runs."""

from __future__ import annotations

from app.persistence.events import STREAM_SUBJECT, WEBHOOKS

COLUMNS = (
    "run_id, thread_id, assistant_id, status, kwargs, metadata, multitask_strategy, attempt, handed_back, job_id, "
    "cancel_action, error, created_at, updated_at"
)

LOCK_THREAD = """
SELECT thread_id, metadata, config, status, coalesce(reserved_until > now(), false) AS reserved
FROM threads WHERE thread_id = %s AND owner = %s AND deleted_at IS NULL FOR UPDATE
"""

# The thread is held while the run gets its place behind the others: both of them and the job are one admission. No run
# where there is no thread; no job where no queue is named.
INSERT = f"""
WITH thread AS MATERIALIZED (
    SELECT thread_id FROM threads
    WHERE thread_id = %(thread_id)s AND owner = %(owner)s AND deleted_at IS NULL FOR UPDATE
), job AS MATERIALIZED (
    SELECT unnest(procrastinate_defer_jobs_v1(ARRAY[ROW(
        %(queue)s, %(task)s, %(priority)s::int, thread_id, NULL, jsonb_build_object('run_id', %(run_id)s::text),
        now() + make_interval(secs => %(delay_s)s::float8))::procrastinate_job_to_defer_v1])) AS id
    FROM thread WHERE %(queue)s::text IS NOT NULL
), stamped AS (
    UPDATE threads t SET metadata = t.metadata || %(thread_metadata)s, updated_at = now()
    FROM thread WHERE t.thread_id = thread.thread_id
)
INSERT INTO runs (run_id, thread_id, assistant_id, status, kwargs, metadata, multitask_strategy, webhook, job_id)
SELECT %(run_id)s::uuid, thread_id, %(assistant_id)s, 'pending', %(kwargs)s, %(metadata)s, %(strategy)s, %(webhook)s,
    (SELECT id FROM job)
FROM thread RETURNING {COLUMNS}
"""

# The row is returned once for the one notification: who follows the thread learns that a run of it begins.
CLAIM = f"""
WITH claimed AS (
    UPDATE runs SET status = 'running', attempt = attempt + 1, worker = %s, updated_at = now(),
        started_at = coalesce(started_at, now()),
        stream_position = coalesce(stream_position, nextval('thread_stream_positions'))
    WHERE run_id = %s AND status IN ('pending', 'running') AND NOT EXISTS (
        SELECT 1 FROM threads t WHERE t.thread_id = runs.thread_id AND t.reserved_until > now())
    RETURNING {COLUMNS}
) SELECT claimed.* FROM claimed, pg_notify(%s, '{STREAM_SUBJECT}' || claimed.thread_id)
"""

_FINISH = """
WITH done AS (
    UPDATE runs SET status = %(status)s, error = %(error)s, usage = %(usage)s, finished_at = now(), updated_at = now(),
        stream_position = coalesce(stream_position, nextval('thread_stream_positions'))
    WHERE run_id = %(run_id)s AND {condition}
    RETURNING *
), kept AS (
    UPDATE threads t SET "values" = %(kept_values)s, interrupts = %(interrupts)s, status = %(thread_status)s,
        error = %(error)s, state_updated_at = now(), updated_at = now()
    FROM done WHERE t.thread_id = done.thread_id AND %(thread_status)s::text IS NOT NULL
), hook AS (
    INSERT INTO webhook_deliveries (run_id, thread_id, kept_thread, url, run, "values")
    SELECT run_id, thread_id, CASE WHEN t.temporary THEN NULL ELSE thread_id END, webhook, to_jsonb(done), %(values)s
    FROM done JOIN threads t USING (thread_id) WHERE webhook IS NOT NULL
    RETURNING delivery_id
), last AS (
    SELECT coalesce(max(seq), 0) AS seq FROM run_events WHERE run_id = %(run_id)s
), tail AS (
    INSERT INTO run_events (run_id, seq, event, data)
    SELECT done.run_id, last.seq + row_number() OVER (ORDER BY e.step), e.event, e.data
    FROM done, last, (VALUES (1, 'error', %(error_text)s::text), (2, %(end)s, 'null')) AS e(step, event, data)
    WHERE e.data IS NOT NULL
)
SELECT pg_notify(%(channel)s, subject) FROM done, unnest(ARRAY[done.run_id::text, %(subject)s{subjects}]) AS subject
UNION ALL SELECT pg_notify(%(channel)s, '{webhooks}') FROM hook
"""
# Whoever was told that the run is taken back is not told afterwards that it succeeded.
FINISH_RUNNING = _FINISH.format(
    condition="attempt = %(attempt)s AND status = 'running' AND cancel_action IS DISTINCT FROM 'rollback'",
    subjects="",
    webhooks=WEBHOOKS,
)
# Who follows the thread does not follow this run yet.
FINISH_PENDING = _FINISH.format(
    condition="status = 'pending'", subjects=f", '{STREAM_SUBJECT}' || done.thread_id", webhooks=WEBHOOKS
)

CHOSEN = f"""
SELECT {COLUMNS} FROM runs
WHERE EXISTS (SELECT 1 FROM threads t
              WHERE t.thread_id = runs.thread_id AND t.owner = %(owner)s AND t.deleted_at IS NULL)
  AND (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)
  AND (%(run_ids)s::uuid[] IS NULL OR run_id = ANY(%(run_ids)s::uuid[]))
  AND (%(run_ids)s::uuid[] IS NOT NULL OR status = ANY(%(statuses)s))
ORDER BY position
"""

QUEUE_STATE = """
SELECT count(*) FILTER (WHERE due) AS waiting, count(*) FILTER (WHERE status = 'running') AS running,
    coalesce(extract(epoch FROM now() - min(since) FILTER (WHERE due)), 0) AS oldest_s
FROM (
    SELECT r.status, coalesce(j.scheduled_at, r.created_at) AS since,
        r.status = 'pending' AND coalesce(j.scheduled_at <= now(), true) AS due
    FROM runs r LEFT JOIN procrastinate_jobs j ON j.id = r.job_id
    WHERE r.status IN ('pending', 'running')
) AS open
"""

ORPHANS = f"""
SELECT {COLUMNS} FROM runs
WHERE status IN ('pending', 'running') AND updated_at < now() - make_interval(secs => %s)
  AND NOT EXISTS (
    SELECT 1 FROM procrastinate_jobs j WHERE j.id = runs.job_id AND j.status IN ('todo', 'doing'))
ORDER BY position
"""

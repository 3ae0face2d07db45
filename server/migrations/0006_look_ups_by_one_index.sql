-- A look-up by a whole primary key must never be planned with another index that only begins like it, and then read
-- all of a run, a project or its sessions. Of two that cost the same the planner takes the one that was made last, and
-- REINDEX CONCURRENTLY makes them again. So those that begin like a primary key are partial now: their condition
-- always holds, and only a query that compares the column implies it.
--
-- Nodes of the version before work on with these tables. While the indexes are made, for which each table is read
-- once, calls, runs and sessions cannot be written.
CREATE UNIQUE INDEX calls_key_given ON calls (project_id, run_id, key) WHERE key IS NOT NULL;
ALTER TABLE calls DROP CONSTRAINT calls_key;
ALTER INDEX calls_key_given RENAME TO calls_key;

DROP INDEX runs_namespace;
CREATE INDEX runs_namespace ON runs (project_id, namespace, id) WHERE namespace IS NOT NULL;

CREATE UNIQUE INDEX sessions_session_id_given ON sessions (project_id, session_id, namespace, run_id)
  WHERE session_id IS NOT NULL;
ALTER TABLE sessions DROP CONSTRAINT sessions_session_id;
ALTER INDEX sessions_session_id_given RENAME TO sessions_session_id;

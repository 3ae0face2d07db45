-- A look-up by a whole primary key must never be planned with another index that only begins like it, and then read
-- all of a run, a project or its sessions. Of two that cost the same the planner takes the one that was made last, and
-- REINDEX CONCURRENTLY makes them again. So those that begin like a primary key are partial now: their condition
-- always holds, and only a query that compares the column implies it.
--
-- Nodes of the version before work on with these tables. While the index is made, for which the table is read once,
-- calls can be neither read nor written. One table a migration, locked at once: nodes lock them in other orders.
LOCK TABLE calls IN ACCESS EXCLUSIVE MODE;
ALTER TABLE calls DROP CONSTRAINT calls_key;
CREATE UNIQUE INDEX calls_key ON calls (project_id, run_id, key) WHERE key IS NOT NULL;

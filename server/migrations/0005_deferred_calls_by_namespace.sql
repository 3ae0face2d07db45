-- What waits for an end user's side: pages look for it again and again, and it is little of all that there is. Calls
-- that are never deferred do not touch it.
--
-- Nodes of the version before work on with these tables. While the index is made, for which the table is read once,
-- calls cannot be written.
CREATE INDEX calls_deferred ON calls (project_id, namespace, run_id, seq) WHERE state = 'deferred';

-- As calls in the migration before: runs by namespace are not taken for runs by their key.
LOCK TABLE runs IN ACCESS EXCLUSIVE MODE;
DROP INDEX runs_namespace;
CREATE INDEX runs_namespace ON runs (project_id, namespace, id) WHERE namespace IS NOT NULL;

-- As calls and runs in the migrations before: sessions by their names are not taken for sessions by their key.
LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE;
ALTER TABLE sessions DROP CONSTRAINT sessions_session_id;
CREATE UNIQUE INDEX sessions_session_id ON sessions (project_id, session_id, namespace, run_id)
  WHERE session_id IS NOT NULL;

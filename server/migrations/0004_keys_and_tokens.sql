-- Who may do what. Nodes read all of it into memory, and again when the version has gone up.
CREATE TABLE access_state (
  one boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (one),
  version bigint NOT NULL DEFAULT 1
);
INSERT INTO access_state DEFAULT VALUES;

CREATE TABLE api_keys (
  project_id integer NOT NULL REFERENCES projects (id),
  id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  rights text[] NOT NULL,
  -- SHA-256 of the secret, which is 256 random bits: no salt, and no slow hash, would add anything.
  secret_hash bytea NOT NULL,
  -- What a rotated key's old secret was, as long as it is still good.
  old_hash bytea,
  old_until timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz,
  revoked_at timestamptz,
  PRIMARY KEY (project_id, id)
);

-- What signs end users' tokens. The secret itself: tokens are verified by it.
CREATE TABLE signing_keys (
  project_id integer NOT NULL REFERENCES projects (id),
  id text COLLATE "C" NOT NULL,
  secret bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Signs nothing new once this is set, and verifies nothing from then on.
  retires_at timestamptz,
  PRIMARY KEY (project_id, id)
);

-- Tokens that are refused before they expire; forgotten afterwards.
CREATE TABLE revoked_tokens (
  project_id integer NOT NULL REFERENCES projects (id),
  id text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (project_id, id)
);

-- A run's key is its end user's own: what another one calls theirs must neither be found by it nor stand in its way.
DROP INDEX runs_key;
CREATE UNIQUE INDEX runs_key ON runs (project_id, namespace, key) WHERE key IS NOT NULL;

-- What a worker's credential is bound to is part of who it is: a run's id, or nothing, as with the namespace.
ALTER TABLE sessions
  ADD COLUMN run_id text COLLATE "C" NOT NULL DEFAULT '',
  DROP CONSTRAINT sessions_session_id,
  ADD CONSTRAINT sessions_session_id UNIQUE (project_id, session_id, namespace, run_id);

-- The schema after all migrations, for reading and for review. Renew it with
--   TRUNKLINE_WRITE_SCHEMA=1 npx vitest run test/store/schema.test.ts

CREATE TYPE call_state AS ENUM (
  'queued',
  'claimed',
  'deferred',
  'succeeded',
  'failed',
  'canceled'
);

CREATE TYPE claim_standing AS ENUM (
  'live',
  'lapsed',
  'answered',
  'withdrawn'
);

CREATE TYPE executor AS ENUM (
  'worker',
  'client'
);

CREATE TYPE policy_mode AS ENUM (
  'retry',
  'at_most_once'
);

CREATE TYPE run_state AS ENUM (
  'active',
  'ended'
);

CREATE TYPE session_state AS ENUM (
  'attached',
  'detached',
  'silent',
  'closed'
);

CREATE OR REPLACE FUNCTION public.micros(instant timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((EXTRACT(epoch FROM instant) * (1000000)::numeric))::bigint;

CREATE OR REPLACE FUNCTION public.timer_at(kept timestamp with time zone, in_ms bigint)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN CASE WHEN (in_ms = '-1'::integer) THEN kept ELSE (now() + ((in_ms)::double precision * '00:00:00.001'::interval)) END;

CREATE OR REPLACE FUNCTION public.with_attempt(attempts json[], number integer, worker text, claimed_at timestamp with time zone, failure json)
 RETURNS json[]
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((COALESCE(attempts, '{}'::json[]) || json_build_object('number', number, 'worker', COALESCE(worker, ''::text), 'claimedAt', micros(claimed_at), 'endedAt', micros(now()), 'failure', failure)))[GREATEST(1, (COALESCE(cardinality(attempts), 0) - 18)):];

CREATE TABLE access_state (
  one boolean DEFAULT true NOT NULL,
  version bigint DEFAULT 1 NOT NULL,
  CONSTRAINT access_state_one_check CHECK (one),
  CONSTRAINT access_state_pkey PRIMARY KEY (one)
);

CREATE TABLE api_keys (
  project_id integer NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  rights text[] NOT NULL,
  secret_hash bytea NOT NULL,
  old_hash bytea,
  old_until timestamp with time zone,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  CONSTRAINT api_keys_pkey PRIMARY KEY (project_id, id),
  CONSTRAINT api_keys_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id)
);

CREATE TABLE calls (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  session bigint,
  heartbeat_timeout_ms bigint NOT NULL,
  detach_grace_ms bigint NOT NULL,
  opened_at timestamp with time zone DEFAULT now() NOT NULL,
  claimed_at timestamp with time zone,
  ended_at timestamp with time zone,
  ready_at timestamp with time zone,
  attempt_timeout_at timestamp with time zone,
  total_timeout_at timestamp with time zone,
  defer_timeout_at timestamp with time zone,
  due_at timestamp with time zone,
  project_id integer NOT NULL,
  seq integer NOT NULL,
  version integer NOT NULL,
  attempt integer NOT NULL,
  spent integer NOT NULL,
  failures integer DEFAULT 0 NOT NULL,
  losses integer DEFAULT 0 NOT NULL,
  offers integer DEFAULT 0 NOT NULL,
  max_attempts integer NOT NULL,
  priority integer NOT NULL,
  turn integer,
  state call_state NOT NULL,
  mode policy_mode NOT NULL,
  executor executor NOT NULL,
  claim_standing claim_standing,
  claim_accepted boolean DEFAULT false NOT NULL,
  backing_off boolean DEFAULT false NOT NULL,
  run_id uuid NOT NULL,
  key text COLLATE "C" NOT NULL,
  namespace text COLLATE "C" NOT NULL,
  tool text COLLATE "C" NOT NULL,
  toolset text COLLATE "C",
  claim_id text COLLATE "C",
  worker text COLLATE "C",
  traceparent text COLLATE "C" NOT NULL,
  policy json,
  input json NOT NULL,
  result json,
  failure json,
  progress json,
  tokens json,
  attempts json[],
  CONSTRAINT calls_backing_off CHECK (((NOT backing_off) OR ((state = 'queued'::call_state) AND (ready_at IS NOT NULL)))),
  CONSTRAINT calls_claim CHECK (
CASE
    WHEN (claim_id IS NULL) THEN ((session IS NULL) AND (worker IS NULL) AND (claim_standing IS NULL) AND (NOT claim_accepted))
    ELSE ((session IS NOT NULL) AND (worker IS NOT NULL) AND (claim_standing IS NOT NULL))
END),
  CONSTRAINT calls_claimed CHECK (((state = 'claimed'::call_state) = ((claim_standing IS NOT NULL) AND (claim_standing = 'live'::claim_standing)))),
  CONSTRAINT calls_claimed_at CHECK (((state <> 'claimed'::call_state) OR (claimed_at IS NOT NULL))),
  CONSTRAINT calls_client CHECK (((executor = 'worker'::executor) OR ((claim_id IS NULL) AND (state <> ALL (ARRAY['queued'::call_state, 'claimed'::call_state]))))),
  CONSTRAINT calls_counters CHECK (((seq >= 1) AND (version >= 1) AND (failures >= 0) AND (losses >= 0) AND (offers >= 0) AND (spent >= 0) AND (spent <= attempt) AND (spent <= max_attempts))),
  CONSTRAINT calls_due CHECK (((due_at IS NULL) = (num_nonnulls(ready_at, attempt_timeout_at, total_timeout_at, defer_timeout_at) = 0))),
  CONSTRAINT calls_ended CHECK (((state = ANY (ARRAY['succeeded'::call_state, 'failed'::call_state, 'canceled'::call_state])) = (ended_at IS NOT NULL))),
  CONSTRAINT calls_ended_timers CHECK (((ended_at IS NULL) OR (num_nonnulls(ready_at, attempt_timeout_at, total_timeout_at, defer_timeout_at, due_at) = 0))),
  CONSTRAINT calls_failure CHECK (((state = ANY (ARRAY['failed'::call_state, 'canceled'::call_state])) = (failure IS NOT NULL))),
  CONSTRAINT calls_pkey PRIMARY KEY (project_id, run_id, seq),
  CONSTRAINT calls_result CHECK (((state = 'succeeded'::call_state) = (result IS NOT NULL)))
) WITH (fillfactor=90);

CREATE TABLE lease_floor (
  one boolean DEFAULT true NOT NULL,
  floor_at timestamp with time zone DEFAULT now() NOT NULL,
  CONSTRAINT lease_floor_one_check CHECK (one),
  CONSTRAINT lease_floor_pkey PRIMARY KEY (one)
);

CREATE TABLE nodes (
  started_at timestamp with time zone DEFAULT now() NOT NULL,
  renewed_at timestamp with time zone DEFAULT now() NOT NULL,
  interval_ms bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  CONSTRAINT nodes_pkey PRIMARY KEY (id)
) WITH (fillfactor=50);

CREATE TABLE projects (
  id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  name text COLLATE "C" NOT NULL,
  CONSTRAINT projects_name_key UNIQUE (name),
  CONSTRAINT projects_pkey PRIMARY KEY (id)
);

CREATE TABLE revoked_tokens (
  project_id integer NOT NULL,
  id text COLLATE "C" NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT revoked_tokens_pkey PRIMARY KEY (project_id, id),
  CONSTRAINT revoked_tokens_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id)
);

CREATE TABLE runs (
  ttl_ms bigint,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  expires_at timestamp with time zone,
  ended_at timestamp with time zone,
  due_at timestamp with time zone,
  project_id integer NOT NULL,
  toolset_version integer,
  state run_state DEFAULT 'active'::run_state NOT NULL,
  id uuid NOT NULL,
  namespace text COLLATE "C" NOT NULL,
  key text COLLATE "C",
  toolset text COLLATE "C",
  labels jsonb NOT NULL,
  CONSTRAINT runs_due CHECK (((due_at IS NOT NULL) OR (state = 'ended'::run_state) OR (expires_at IS NULL))),
  CONSTRAINT runs_ended CHECK (((state = 'ended'::run_state) = (ended_at IS NOT NULL))),
  CONSTRAINT runs_pkey PRIMARY KEY (project_id, id),
  CONSTRAINT runs_toolset CHECK (((toolset IS NULL) = (toolset_version IS NULL))),
  CONSTRAINT runs_ttl CHECK (((ttl_ms IS NULL) = (expires_at IS NULL)))
);

CREATE TABLE schema_migrations (
  version integer NOT NULL,
  applied_at timestamp with time zone DEFAULT now() NOT NULL,
  name text NOT NULL,
  CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
);

CREATE TABLE sessions (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  last_heard_at timestamp with time zone DEFAULT now() NOT NULL,
  detached_at timestamp with time zone,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  project_id integer NOT NULL,
  epoch integer NOT NULL,
  state session_state NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  namespace text COLLATE "C" NOT NULL,
  nonce text COLLATE "C" NOT NULL,
  node_id text COLLATE "C" NOT NULL,
  worker text COLLATE "C" NOT NULL,
  sdk text COLLATE "C" NOT NULL,
  toolset text COLLATE "C",
  tools text[] COLLATE "C" NOT NULL,
  hello_number bigint DEFAULT 0 NOT NULL,
  run_id text COLLATE "C" DEFAULT ''::text NOT NULL,
  CONSTRAINT sessions_detached CHECK (((state = 'attached'::session_state) = (detached_at IS NULL))),
  CONSTRAINT sessions_pkey PRIMARY KEY (project_id, id)
) WITH (fillfactor=50);

CREATE TABLE signing_keys (
  project_id integer NOT NULL,
  id text COLLATE "C" NOT NULL,
  secret bytea NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  retires_at timestamp with time zone,
  CONSTRAINT signing_keys_pkey PRIMARY KEY (project_id, id),
  CONSTRAINT signing_keys_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id)
);

CREATE TABLE toolset_versions (
  project_id integer NOT NULL,
  version integer NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  id text COLLATE "C" NOT NULL,
  tools json NOT NULL,
  CONSTRAINT toolset_versions_pkey PRIMARY KEY (project_id, id, version),
  CONSTRAINT toolset_versions_version CHECK ((version >= 1))
);

CREATE TABLE toolsets (
  project_id integer NOT NULL,
  version integer NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  deleted_at timestamp with time zone,
  id text COLLATE "C" NOT NULL,
  CONSTRAINT toolsets_pkey PRIMARY KEY (project_id, id),
  CONSTRAINT toolsets_version CHECK ((version >= 0))
);

CREATE INDEX calls_claimable ON public.calls USING btree (project_id, tool, priority DESC, namespace DESC, id) WHERE ((state = 'queued'::call_state) AND (NOT backing_off));

CREATE INDEX calls_claimable_by_namespace ON public.calls USING btree (project_id, namespace, tool, priority DESC, id) WHERE ((state = 'queued'::call_state) AND (NOT backing_off));

CREATE INDEX calls_deferred ON public.calls USING btree (project_id, namespace, run_id, seq) WHERE (state = 'deferred'::call_state);

CREATE INDEX calls_due ON public.calls USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX calls_held ON public.calls USING btree (project_id, session) WHERE (state = 'claimed'::call_state);

CREATE UNIQUE INDEX calls_key ON public.calls USING btree (project_id, run_id, key) WHERE (key IS NOT NULL);

CREATE INDEX calls_turn ON public.calls USING btree (project_id, run_id, turn) WHERE (turn IS NOT NULL);

CREATE INDEX runs_due ON public.runs USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX runs_ended ON public.runs USING btree (ended_at) WHERE ((state = 'ended'::run_state) AND (due_at IS NULL));

CREATE UNIQUE INDEX runs_key ON public.runs USING btree (project_id, namespace, key) WHERE (key IS NOT NULL);

CREATE INDEX runs_namespace ON public.runs USING btree (project_id, namespace, id) WHERE (namespace IS NOT NULL);

CREATE INDEX sessions_id ON public.sessions USING btree (id);

CREATE UNIQUE INDEX sessions_session_id ON public.sessions USING btree (project_id, session_id, namespace, run_id) WHERE (session_id IS NOT NULL);

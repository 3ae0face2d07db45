import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { useDatabase } from "../support/database.js";
import { until } from "../support/until.js";
import { RunningCommand, trunkline } from "./command.js";

const database = useDatabase();
const ROOT = "hush-root-key-of-the-server";
/** In every payload, name of a key and bad input. */
const PAYLOAD = "hush-payload";
const WRONG = "hush-wrong-credential";

/** Has PostgreSQL quote what it refuses, as it does for rows and values that it cannot take. */
const SABOTAGE = `
  ALTER TABLE calls ADD CONSTRAINT sabotaged_input CHECK (input::text NOT LIKE '%sabotage%');
  CREATE FUNCTION sabotage() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'invalid input syntax for type sabotaged: "%"', NEW.result
        USING ERRCODE = '22P02', DETAIL = NEW.result::text, HINT = NEW.input::text;
    END $$;
  CREATE TRIGGER sabotage BEFORE UPDATE ON calls FOR EACH ROW
    WHEN (NEW.result::text LIKE '%sabotage%') EXECUTE FUNCTION sabotage();
`;

type Json = Record<string, unknown>;

/** What was seen of the server's secrets, beside those that it was started with. */
const secrets = new Set<string>([ROOT, PAYLOAD, WRONG]);

class Caller {
  readonly #url: string;
  readonly #authorization: string;

  constructor(url: string, authorization = `Bearer ${ROOT}`) {
    this.#url = url;
    this.#authorization = authorization;
  }

  async ask(
    rpc: string,
    body: object | string,
    type = "application/json",
  ): Promise<Json & { status: number }> {
    const response = await fetch(`${this.#url}/trunkline.v1.${rpc}`, {
      method: "POST",
      headers: { "content-type": type, authorization: this.#authorization },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
    const said = await response.text();
    return { ...(JSON.parse(said) as Json), status: response.status };
  }
}

/** Opens a call that a worker claims; the ids of both. */
async function claim(root: Caller, runId: string, input: Json): Promise<{ callId: string; claimId: string }> {
  const calls = [{ tool: "t", inputJson: JSON.stringify(input) }];
  await root.ask("CallService/OpenCalls", { runId, calls });
  const hello = {
    sessionId: "s",
    nonce: "0123456789abcdef",
    worker: "w",
    tools: ["t"],
    slots: 10,
    number: "1",
  };
  const { claims } = (await root.ask("WorkerService/ClaimCalls", { hello, wait: "10s" })) as {
    claims?: { callId: string; claimId: string }[];
  };
  return claims?.[0] ?? expect.fail("nothing was claimed");
}

/** Calls that go well, calls that go wrong, and credentials of all kinds. */
async function useEverything(url: string): Promise<void> {
  const root = new Caller(url);
  const { secret } = await root.ask("AdminService/CreateKey", {
    name: PAYLOAD,
    scopes: ["KEY_SCOPE_HARNESS"],
  });
  const { token } = await root.ask("AdminService/CreateToken", {
    namespace: "ada",
    scopes: ["KEY_SCOPE_HARNESS"],
  });
  for (const credential of [String(secret), String(token)]) {
    secrets.add(credential);
    expect(await new Caller(url, `Bearer ${credential}`).ask("RunService/ListRuns", {})).toMatchObject({
      status: 200,
    });
    // Its last letter is another one: a key that was never made, and a token that was tampered with.
    const tampered = credential.slice(0, -2) + (credential.endsWith("AA") ? "BB" : "AA");
    secrets.add(tampered);
    expect(await new Caller(url, `Bearer ${tampered}`).ask("RunService/ListRuns", {})).toMatchObject({
      status: 401,
    });
  }
  for (const odd of [`Basic ${WRONG}`, `Bearer ${WRONG} ${WRONG}`, WRONG, `Bearer ${WRONG}`]) {
    expect(await new Caller(url, odd).ask("RunService/ListRuns", {})).toMatchObject({ status: 401 });
  }

  const made = await root.ask("RunService/CreateRun", { spec: { labels: { note: PAYLOAD } } });
  const { id: runId } = made["run"] as { id: string };
  const held = await claim(root, runId, { secret: PAYLOAD });
  const worker = { sessionId: "s", nonce: "0123456789abcdef" };
  const deferred = await root.ask("WorkerService/DeferCall", {
    ...worker,
    deferral: { ...held, timeout: "60s" },
  });
  const completion = (deferred["ack"] as { deferred: { token: string } }).deferred.token;
  for (const good of [false, true]) {
    const [id, attempt, hidden = ""] = completion.split(".");
    secrets.add(hidden);
    const shown = good
      ? completion
      : `${String(id)}.${String(attempt)}.${hidden.split("").reverse().join("")}`;
    secrets.add(shown.split(".")[2] ?? "");
    const done = await root.ask("TaskService/CompleteTask", {
      token: shown,
      resultJson: JSON.stringify(PAYLOAD),
    });
    expect(done.status).toBe(good ? 200 : 404);
  }

  for (const [rpc, body] of [
    ["CallService/OpenCalls", `{"runId":"${PAYLOAD}"`],
    ["CallService/OpenCalls", { runId, calls: [{ tool: PAYLOAD, inputJson: `{${PAYLOAD}` }] }],
    ["CallService/OpenCalls", { runId, calls: [{ tool: "t", unknownField: PAYLOAD }] }],
    ["CallService/OpenCalls", { runId, calls: PAYLOAD }],
    [
      "ToolsetService/PutToolset",
      { id: "x", tools: [{ name: "t", inputSchemaJson: `{"type":"${PAYLOAD}"}` }] },
    ],
  ] as const) {
    await root.ask(rpc, body);
  }
  await root.ask("CallService/OpenCalls", PAYLOAD, "application/proto");
  await fetch(`${url}/api/machine/sessions/${runId}/calls/settle?key=${WRONG}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${ROOT}` },
    body: `{"id": "${PAYLOAD}", "result": ${PAYLOAD}`,
  });
  await fetch(`${url}/${WRONG}?token=${WRONG}`);
}

/** A header that goes on in the next line, as a key with a newline at its end makes it. */
async function sendBrokenHeader(url: string): Promise<void> {
  const { port } = new URL(url);
  const socket = connect({ port: Number(port), host: "127.0.0.1" });
  await once(socket, "connect");
  socket.write(
    `POST /trunkline.v1.RunService/ListRuns HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${WRONG}\n${WRONG}\r\n\r\n`,
  );
  expect(await text(socket)).toContain("400 Bad Request");
}

/** What the database refuses in the middle of things is a fault, which is logged. */
async function failInTheDatabase(url: string): Promise<void> {
  const root = new Caller(url);
  const made = await root.ask("RunService/CreateRun", { spec: {} });
  const { id: runId } = made["run"] as { id: string };
  const held = await claim(root, runId, { secret: PAYLOAD });
  await database.pool().query(SABOTAGE);
  const sabotaged = JSON.stringify(`${PAYLOAD} sabotage`);
  await root.ask("CallService/OpenCalls", { runId, calls: [{ tool: "t", inputJson: sabotaged }] });
  const worker = { sessionId: "s", nonce: "0123456789abcdef" };
  await root.ask("WorkerService/AnswerCalls", { ...worker, answers: [{ ...held, resultJson: sabotaged }] });
}

test("no key, token or payload is in what a server says at its most talkative (S14)", async () => {
  const url = new URL(database.url);
  if (url.password !== "") secrets.add(url.password);
  const env = { DATABASE_URL: url.href, TRUNKLINE_ROOT_KEY: ROOT, TRUNKLINE_DEBUG: "1" };
  await using server = new RunningCommand(
    ["serve", "--port", "0", "--log-level", "debug", "--heartbeat-interval", "200ms"],
    { env },
  );
  const at = await server.ready();
  await useEverything(at);
  await sendBrokenHeader(at);
  await failInTheDatabase(at);
  // What went wrong is told by the names of things.
  for (const name of ["sabotaged_input", "22P02"]) {
    await until(`a line about ${name}`, () => server.stderr.includes(name));
  }
  expect(await server.terminate()).toEqual({ status: 0, signal: null });
  const said = server.stdout + server.stderr;
  expect([...secrets].filter((secret) => secret !== "" && said.includes(secret))).toEqual([]);
});

test("what a server is started with is refused without being shown (S14)", async () => {
  const good = { DATABASE_URL: database.url, TRUNKLINE_ROOT_KEY: ROOT, TRUNKLINE_DEBUG: "1" };
  const refused = await Promise.all(
    [
      { TRUNKLINE_ROOT_KEY: `${ROOT}\n` },
      // A password that should have been escaped.
      { DATABASE_URL: "postgres://user:hush#word@127.0.0.1:9/name" },
    ].map((wrong) =>
      trunkline(["serve", "--port", "0", "--log-level", "debug"], { env: { ...good, ...wrong } }),
    ),
  );
  for (const { status, stdout, stderr } of refused) {
    expect(status).not.toBe(0);
    expect(stdout + stderr).not.toMatch(/hush|word/);
  }
});

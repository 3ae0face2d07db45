// Rows as the server makes them, and what it does with them, without a server.
import { randomBytes, randomUUID } from "node:crypto";
import { DEFAULT_POLICY } from "../../server/dist/core/policy.js";
import { birth, decide } from "../../server/dist/core/transition.js";
import { insertCalls } from "../../server/dist/store/calls-insert.js";
import { endCalls } from "../../server/dist/store/calls-save.js";
import { createRuns } from "../../server/dist/store/runs.js";
import { helloSessions } from "../../server/dist/store/sessions.js";

const PROJECT = 1;
const WORKER = "bench-worker";

/**
 * @typedef {import("../../server/dist/store/database.js").Database} Database
 * @typedef {import("../../server/dist/store/calls-insert.js").NewCallRow} NewCallRow
 *
 * @typedef {object} Owners
 * @property {{ id: string, namespace: string }} run
 * @property {{ number: number, epoch: number }} session
 * @property {number} nextSeq
 */

/**
 * Makes a run, and a session to claim its calls.
 *
 * @param {Database} db
 * @returns {Promise<Owners>}
 */
export async function makeOwners(db) {
  const run = {
    projectId: PROJECT,
    id: randomUUID(),
    key: null,
    namespace: "bench",
    toolset: null,
    labels: {},
    ttlMs: null,
  };
  await createRuns(db, [run]);
  const hello = {
    scope: { projectId: PROJECT, namespace: null },
    sessionId: randomUUID(),
    nonce: randomUUID(),
    worker: WORKER,
    sdk: "bench",
    tools: ["noop"],
    toolset: null,
    helloNumber: 0,
    nodeId: "bench",
    intervalMs: 60_000,
    streamOpenHere: false,
  };
  const [session] = await helloSessions(db, [hello]);
  if (session.type !== "ok") throw new Error(`the session came to ${session.type}`);
  return { run, session, nextSeq: 1 };
}

const idDigits = (n) => n.toString(36).padStart(8, "0");

/**
 * So many calls to insert, each claimed already.
 *
 * @param {Owners} owners
 * @param {number} count
 * @param {string} inputJson
 * @returns {NewCallRow[]}
 */
export function newRows(owners, count, inputJson) {
  const { run, session } = owners;
  return Array.from({ length: count }, () => {
    const seq = owners.nextSeq++;
    const facts = {
      projectId: PROJECT,
      runId: run.id,
      namespace: run.namespace,
      seq,
      id: `${run.id}/${seq}`,
      key: `bench-${idDigits(seq)}`,
      turn: null,
      tool: "noop",
      executor: /** @type {const} */ ("worker"),
      policy: DEFAULT_POLICY,
    };
    const claim = { claimId: randomBytes(16).toString("hex"), session: session.number, worker: WORKER };
    const extra = { inputJson, priority: 0, traceparent: "", toolset: null, epoch: session.epoch };
    return { ...birth(facts, claim), ...extra };
  });
}

/**
 * The two statements of a call's life, for many calls at once.
 *
 * @param {Database} db
 * @param {readonly NewCallRow[]} rows
 * @param {string} resultJson
 */
export async function storeAndEnd(db, rows, resultJson) {
  const inserted = await insertCalls(db, rows);
  const first = inserted.find(({ type }) => type !== "inserted");
  if (first !== undefined) throw new Error(`a call was not inserted: ${first.type}`);
  const items = rows.map(({ call: before }) => {
    const answer = /** @type {const} */ ({ type: "result", resultJson });
    const { change } = decide(before, { type: "answer", claimId: before.claim.id, answer }, 0);
    return { before, change };
  });
  const ended = await endCalls(db, items);
  if (ended.some(({ type }) => type !== "saved")) throw new Error("a call was not ended");
}

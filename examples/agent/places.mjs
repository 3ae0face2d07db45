import { tmpdir } from "node:os";
import { join } from "node:path";

const { AGENT_DIR = join(tmpdir(), "trunkline-agent"), EVIDENCE_DIR } = process.env;

/** The folder with a file per session. `AGENT_DIR` says where it and the approvals lie. */
export const SESSIONS_DIR = join(AGENT_DIR, "sessions");

/** The folder with what waits for a manager's approval. */
export const APPROVALS_DIR = join(AGENT_DIR, "approvals");

/**
 * Where the worker and the scripted model write down what they did, for the checker; nowhere unless it is set.
 *
 * @type {string | undefined}
 */
export { EVIDENCE_DIR };

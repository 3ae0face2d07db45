import { tmpdir } from "node:os";
import { join } from "node:path";

const { STATE_DIR = join(tmpdir(), "trunkline-host-tools") } = process.env;

/** The bank's file. `STATE_DIR` says where it and the inbox lie. */
export const LEDGER_FILE = join(STATE_DIR, "ledger.jsonl");

/** The folder with questions to people. */
export const INBOX_DIR = join(STATE_DIR, "inbox");

import type { Kit } from "../kit.js";
import { need, same } from "../mismatch.js";
import type { PeerStream } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";

const TOOLS = ["big", "crash", "defer", "echo", "fail", "sleep"];
const MIN_NONCE_BYTES = 16;
const MAX_ID_BYTES = 256;

/** The first frame of a program. */
export const HELLO: readonly Scenario[] = [{ number: 1, title: "hello", play: hello }];

async function hello(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  check(kit, stream);
  kit.start();
  const other = await kit.arrival();
  other.welcome();
  check(kit, other);
  const [nonce, again] = [stream.hello?.nonce ?? "", other.hello?.nonce ?? ""];
  need(nonce !== again, "a random nonce, another in each process", "the same nonce in two processes");
}

function check(kit: Kit, { hello: said, authorization }: PeerStream): void {
  if (said === undefined) return;
  same("the request's Authorization header", authorization, `Bearer ${kit.key}`);
  const idBytes = Buffer.byteLength(said.sessionId);
  need(idBytes >= 1 && idBytes <= MAX_ID_BYTES, "a session id of 1 to 256 bytes", `one of ${idBytes} bytes`);
  const nonceBytes = Buffer.byteLength(said.nonce);
  need(
    nonceBytes >= MIN_NONCE_BYTES && nonceBytes <= MAX_ID_BYTES,
    "a nonce of 16 to 256 bytes",
    `one of ${nonceBytes} bytes`,
  );
  same("the hello's worker", said.worker, kit.worker);
  same("the hello's tools, sorted", [...said.tools].sort(), TOOLS);
  same("the hello's toolset", said.toolset, "");
  same("the hello's slots", said.slots, kit.concurrency);
  same("the claims that the hello names", said.claims.length, 0);
}

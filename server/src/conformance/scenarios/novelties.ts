import { create, type Message, type UnknownField } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { Reason } from "@trunkline/proto/problem";
import {
  AckSchema,
  RevocationSchema,
  WorkResponseSchema,
  type Claim,
  type ClaimVerdict_Standing as Standing,
  type RevokeReason,
} from "@trunkline/proto/worker";
import { RETURN_MS, type Kit } from "../kit.js";
import { need } from "../mismatch.js";
import type { Scenario } from "../scenario.js";
import { names } from "./cuts.js";

/** What a worker does not know, or does not want to hear. */
export const NOVELTIES: readonly Scenario[] = [
  { number: 21, title: "from a newer server", play: newerServer },
  { number: 22, title: "refused answer", play: refusedAnswer },
];

/** Fields of a version that is not written yet: a number, and a text with its length before it. */
const UNKNOWN: UnknownField[] = [
  { no: 1_000, wireType: WireType.Varint, data: new Uint8Array([7]) },
  { no: 1_001, wireType: WireType.LengthDelimited, data: new Uint8Array([3, 97, 98, 99]) },
];
/** Of an enum, whose type leaves out that other values are legal on the wire. */
const UNKNOWN_VALUE = 999 as Reason & RevokeReason & Standing;

/** Adds to a message what this version does not know. */
function newer<M extends Message>(message: M): M {
  message.$unknown = UNKNOWN;
  return message;
}

async function newerServer(kit: Kit): Promise<void> {
  kit.start();
  const stream = await kit.arrival();
  stream.welcome(undefined, (frame) => {
    newer(frame);
    if (frame.welcome !== undefined) newer(frame.welcome);
  });
  stream.send(newer(create(WorkResponseSchema)));
  const running = kit.claim("sleep", '{"ms":20000}');
  const kept = kit.claim("sleep", '{"ms":20000}');
  const answered = kit.claim("echo", "1");
  stream.send({ claims: [running, kept, answered].map(newer) });
  await kit.started(running);
  await kit.started(kept);
  await kit.answer(stream, answered);
  const problem = { code: UNKNOWN_VALUE, reason: UNKNOWN_VALUE, message: "new" };
  stream.send({ acks: [newer(create(AckSchema, { claimId: answered.claimId, problem }))] });
  await kit.dropped(stream, answered);
  const revocation = create(RevocationSchema, { claimId: running.claimId, reason: UNKNOWN_VALUE });
  stream.send({ revoked: [newer(revocation)] });
  await kit.stopped(running);

  stream.link.cut("rst");
  const next = await kit.arrival(RETURN_MS);
  names(next, kept);
  next.welcome(() => UNKNOWN_VALUE);
  await kit.goesOn(next);
}

async function refusedAnswer(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const claim = kit.claim("echo", '{"too":"late"}');
  stream.give(claim);
  await kit.answer(stream, claim);
  stream.ack(claim, Reason.CALL_ENDED);
  await kit.dropped(stream, claim);
  need(stream.answersTo(claim).length === 1, "an answer that was refused not to be sent again", "it was");
  stream.link.cut("fin");
  const next = await kit.arrival(RETURN_MS);
  names(next);
  next.welcome();
  await kit.calm(next, "an answer that was refused not to be sent again", () => sentAgain(kit, claim));
  await kit.goesOn(next);
}

function sentAgain(kit: Kit, claim: Claim): string | undefined {
  const count = kit.streams.reduce((sum, stream) => sum + stream.answersTo(claim).length, 0);
  return count > 1 ? `it came ${count} times` : undefined;
}

import { durationMs } from "@bufbuild/protobuf/wkt";
import { Reason, type Problem } from "@trunkline/proto/problem";
import {
  ClaimVerdict_Standing as Standing,
  RevokeReason,
  type Answer,
  type Claim,
  type Hello,
  type Welcome,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { short } from "./mismatch.js";

const LISTED = 6;
const PAYLOAD_CHARACTERS = 60;

/** What a frame of the worker says, on one line. */
export function requestText(frame: WorkRequest): string {
  const { hello, accepted, deferrals, answers, releases, heartbeat, drain, grant } = frame;
  return joined([
    hello && helloText(hello),
    accepted.length > 0 && `accepted ${list(accepted)}`,
    deferrals.length > 0 && `deferrals ${list(deferrals.map(({ claimId }) => claimId))}`,
    answers.length > 0 && `answers ${list(answers.map(answerText))}`,
    releases.length > 0 && `releases ${list(releases)}`,
    heartbeat && `heartbeat ${list(heartbeat.claims)}`,
    drain && "drain",
    grant > 0 && `grant ${grant}`,
  ]);
}

/** What a frame of the server says, on one line. */
export function responseText(frame: WorkResponse): string {
  const { welcome, claims, confirmed, acks, revoked, heartbeatAck, drained, goaway } = frame;
  return joined([
    welcome && welcomeText(welcome),
    claims.length > 0 && `claims ${list(claims.map(claimText))}`,
    confirmed.length > 0 && `confirmed ${list(confirmed)}`,
    acks.length > 0 &&
      `acks ${list(acks.map(({ claimId, problem }) => `${claimId}${problemText(problem)}`))}`,
    revoked.length > 0 &&
      `revoked ${list(revoked.map(({ claimId, reason }) => `${claimId} ${nameOf(RevokeReason, reason)}`))}`,
    heartbeatAck && `heartbeat_ack${heartbeatAck.lost.length > 0 ? ` lost ${list(heartbeatAck.lost)}` : ""}`,
    drained && "drained",
    goaway && "goaway",
  ]);
}

function joined(parts: readonly (string | false | undefined)[]): string {
  const said = parts.filter((part) => typeof part === "string");
  return said.length === 0 ? "an empty frame" : said.join(", ");
}

function list(items: readonly string[]): string {
  const more = items.length - LISTED;
  return `[${items.slice(0, LISTED).join(", ")}${more > 0 ? `, and ${more} more` : ""}]`;
}

function helloText({ sessionId, nonce, slots, claims, number }: Hello): string {
  const who = `session ${short(sessionId, 8)} nonce ${short(nonce, 8)} number ${number}`;
  return `hello ${who} slots ${slots} claims ${list(claims.map(({ claimId }) => claimId))}`;
}

function welcomeText({ heartbeatInterval, verdicts }: Welcome): string {
  const judged = verdicts.map(({ claimId, standing }) => `${claimId} ${nameOf(Standing, standing)}`);
  const every = heartbeatInterval === undefined ? "" : ` every ${String(durationMs(heartbeatInterval))} ms`;
  return `welcome${every}${judged.length > 0 ? ` verdicts ${list(judged)}` : ""}`;
}

function answerText({ claimId, outcome }: Answer): string {
  switch (outcome.case) {
    case "resultJson":
      return `${claimId} result ${short(outcome.value, PAYLOAD_CHARACTERS)}`;
    case "failure":
      return `${claimId} failure ${short(outcome.value.message, PAYLOAD_CHARACTERS)}`;
    case undefined:
      return `${claimId} without an outcome`;
  }
}

function claimText({ claimId, callId, attempt, tool, inputJson, confirm }: Claim): string {
  const how = confirm ? " confirm" : "";
  return `${claimId} of ${callId} attempt ${attempt}${how} ${tool} ${short(inputJson, PAYLOAD_CHARACTERS)}`;
}

function problemText(problem: Problem | undefined): string {
  return problem === undefined ? "" : ` refused ${nameOf(Reason, problem.reason)}`;
}

function nameOf(names: Readonly<Record<number, string>>, value: number): string {
  return names[value] ?? String(value);
}

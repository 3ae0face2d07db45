import { create } from "@bufbuild/protobuf";
import {
  ClaimVerdict_Standing as Standing,
  RevokeReason,
  WelcomeSchema,
  type Claim,
  type Hello,
  type Welcome,
} from "@trunkline/proto/worker";
import { TrunklineError } from "../core/error.js";
import type { RevokeCause } from "../core/event.js";
import { LIMITS } from "../core/limits.js";
import { formatCallId, checkName, checkToolName, parseCallId } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import type { Delivery } from "../exchange/delivery.js";
import type { Exchange } from "../exchange/exchange.js";
import type { HelloRequest, NamedClaim, NamedVerdict } from "../exchange/hello.js";
import { toDuration } from "./convert.js";

const REVOKE_REASONS: Readonly<Record<RevokeCause, RevokeReason>> = {
  settled: RevokeReason.SETTLED,
  canceled: RevokeReason.CANCELED,
  run_ended: RevokeReason.RUN_ENDED,
  timeout: RevokeReason.TIMEOUT,
  lease_lost: RevokeReason.LEASE_LOST,
};

const STANDINGS: Readonly<Record<NamedVerdict["standing"], Standing>> = {
  kept: Standing.KEPT,
  confirmed: Standing.CONFIRMED,
  deferred: Standing.DEFERRED,
  answered: Standing.ANSWERED,
  lost: Standing.LOST,
};

/** The wire's word for why a claim ended. */
export function revokeReason(cause: RevokeCause): RevokeReason {
  return REVOKE_REASONS[cause];
}

/** A claim as its worker gets it. */
export function toClaim({ call, inputJson, labels, traceparent, timeLeftMs }: Delivery): Claim {
  const claim: Claim = {
    $typeName: "trunkline.v1.Claim",
    claimId: call.claim.id,
    callId: formatCallId(call),
    attempt: call.attempt,
    tool: call.tool,
    inputJson,
    namespace: call.namespace,
    labels,
    confirm: call.policy.mode === "at_most_once",
    traceparent,
  };
  if (timeLeftMs !== null) claim.timeLeft = toDuration(timeLeftMs);
  return claim;
}

/** The first thing that a worker reads. */
export function toWelcome(exchange: Exchange, verdicts: readonly NamedVerdict[]): Welcome {
  return create(WelcomeSchema, {
    node: exchange.nodeId,
    heartbeatInterval: toDuration(exchange.heartbeatIntervalMs),
    maxResultBytes: LIMITS.payloadBytes,
    maxFrameBytes: LIMITS.frameBytes,
    verdicts: verdicts.map(({ claimId, standing }) => ({ claimId, standing: STANDINGS[standing] })),
  });
}

/**
 * A hello, checked.
 *
 * @throws TrunklineError INVALID_FIELD or LIMIT_EXCEEDED for what it says of itself.
 */
export function toHelloRequest(hello: Hello, scope: Scope): HelloRequest {
  checkName(hello.sessionId, "hello.session_id");
  checkName(hello.nonce, "hello.nonce");
  if (hello.nonce.length < 16) {
    throw new TrunklineError("INVALID_FIELD", "hello.nonce is too short; allowed are 16 to 256 bytes", {
      metadata: { field: "hello.nonce" },
    });
  }
  if (hello.worker !== "") checkName(hello.worker, "hello.worker");
  if (hello.sdk !== "") checkName(hello.sdk, "hello.sdk");
  if (hello.toolset !== "") checkName(hello.toolset, "hello.toolset");
  const tools = [...new Set(hello.tools)];
  if (tools.length === 0 || tools.length > LIMITS.toolsPerToolset) {
    throw new TrunklineError(
      "INVALID_FIELD",
      `hello.tools has ${String(tools.length)} tools; allowed are 1 to ${String(LIMITS.toolsPerToolset)}`,
      { metadata: { field: "hello.tools" } },
    );
  }
  tools.forEach((tool, index) => {
    checkToolName(tool, `hello.tools[${String(index)}]`);
  });
  if (hello.slots > LIMITS.credit) {
    throw new TrunklineError(
      "LIMIT_EXCEEDED",
      `hello.slots is ${String(hello.slots)}; allowed are at most ${String(LIMITS.credit)}`,
      { metadata: { field: "hello.slots", max: String(LIMITS.credit) } },
    );
  }
  if (hello.number > Number.MAX_SAFE_INTEGER) {
    throw new TrunklineError(
      "INVALID_FIELD",
      `hello.number is ${String(hello.number)}; allowed are at most ${String(Number.MAX_SAFE_INTEGER)}`,
      { metadata: { field: "hello.number", max: String(Number.MAX_SAFE_INTEGER) } },
    );
  }
  return {
    scope,
    slots: hello.slots,
    claims: hello.claims.map((claim) => toNamedClaim(claim, scope)),
    facts: {
      sessionId: hello.sessionId,
      nonce: hello.nonce,
      worker: hello.worker,
      sdk: hello.sdk,
      tools,
      toolset: hello.toolset === "" ? null : hello.toolset,
      helloNumber: Number(hello.number),
    },
  };
}

/** A claim that a worker names; one with a malformed call id is of no call, and harms no other (I11). */
function toNamedClaim(
  { callId, claimId }: { readonly callId: string; readonly claimId: string },
  { projectId }: Scope,
): NamedClaim {
  const id = parseCallId(callId);
  return { ref: id === undefined ? null : { projectId, ...id }, claimId };
}

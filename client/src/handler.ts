import { FailureKind } from "@trunkline/proto/model";
import type { Answer } from "@trunkline/proto/worker";
import { HandlerContext, type ContextPort, type ToolContext } from "./context.js";
import { TrunklineError } from "./errors.js";
import { failureOfResult, failureOfThrown, wireFailure } from "./failure.js";
import type { HeldClaim } from "./held-claim.js";
import { nameThrown, toJson } from "./json.js";

/** Runs one tool: gets the parsed input, returns what JSON can carry, or throws. */
export type ToolHandler = {
  // Written as a method so that a handler may declare the input's type, which only the tool's author knows.
  handle(input: unknown, context: ToolContext): unknown;
}["handle"];

/** Which call an error came from. */
export interface CallInfo {
  readonly callId: string;
  readonly tool: string;
  readonly attempt: number;
}

/** How a handler ended, as the wire has it: with JSON text or a failure. */
export type HandlerOutcome = Exclude<Answer["outcome"], { case: undefined }>;

/** What running a handler needs of its session. */
export interface HandlerPort extends ContextPort {
  /** The largest result, in bytes, as the server announced it. */
  readonly maxResultBytes: number;
  /** The handler has ended: its slot is free. */
  release(held: HeldClaim): void;
  /** Sends the answer, as often as it takes. */
  answer(held: HeldClaim, outcome: HandlerOutcome): void;
  /** Tells `onError`. */
  report(error: unknown, held: HeldClaim): void;
}

/**
 * Runs the handler of a claim to its end, whatever that is: a result or failure is answered, the slot is
 * freed in any case, and what nobody else would see is reported. It never rejects.
 */
export async function runHandler(held: HeldClaim, handler: ToolHandler, port: HandlerPort): Promise<void> {
  const context = new HandlerContext(held, port);
  let ending: { readonly returned: unknown } | { readonly thrown: unknown };
  try {
    const input: unknown = JSON.parse(context.inputJson);
    ending = { returned: await handler(input, context) };
  } catch (thrown) {
    ending = { thrown };
  }
  held.standing = "over";
  const deferral = context.deferral;
  if (deferral !== undefined) {
    port.release(held);
    await afterDeferral(held, deferral, ending, port);
  } else if (held.lost) {
    // Lost; that was said when it happened.
    port.release(held);
  } else {
    port.answer(held, outcomeOf(held, ending, port));
    port.release(held);
  }
}

function outcomeOf(
  held: HeldClaim,
  ending: { readonly returned: unknown } | { readonly thrown: unknown },
  port: HandlerPort,
): HandlerOutcome {
  if ("thrown" in ending) {
    const { failure, unexpected } = failureOfThrown(ending.thrown);
    if (unexpected) port.report(ending.thrown, held);
    return { case: "failure", value: failure };
  }
  try {
    return { case: "resultJson", value: toJson(ending.returned, "result", port.maxResultBytes) };
  } catch (error) {
    port.report(error, held);
    return { case: "failure", value: failureOfResult(error) };
  }
}

/** What a handler returns or throws after a deferral is no answer; what it threw is reported. */
async function afterDeferral(
  held: HeldClaim,
  deferral: Promise<unknown>,
  ending: { readonly returned: unknown } | { readonly thrown: unknown },
  port: HandlerPort,
): Promise<void> {
  let stored: unknown;
  try {
    stored = await deferral;
  } catch (refusal) {
    if (held.lost) {
      port.report("thrown" in ending ? ending.thrown : refusal, held);
      return;
    }
    // Nobody holds a token that is good, and the handler is gone: left alone, the call would wait for ever.
    const message = `the deferral was refused: ${nameThrown(refusal)}`;
    port.report(refusal, held);
    port.answer(held, { case: "failure", value: wireFailure(FailureKind.EXCEPTION, message) });
    return;
  }
  if ("thrown" in ending) port.report(ending.thrown, held);
  else if (ending.returned !== undefined && ending.returned !== stored) {
    port.report(
      new TrunklineError(
        "CALL_DEFERRED",
        "what a handler returns after defer() is no answer; return nothing",
      ),
      held,
    );
  }
}

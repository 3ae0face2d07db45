import { create } from "@bufbuild/protobuf";
import { FailureKind, FailureSchema, type Failure } from "@trunkline/proto/model";
import { AnswerSchema, type Answer, type Claim } from "@trunkline/proto/worker";

/**
 * Runs one tool: gives the result as JSON text, which the caller reads digit for digit, or throws. A ToolError reaches
 * the caller as it says; anything else that is thrown, as a failure of kind EXCEPTION.
 */
export type Handler = (call: Call) => string | Promise<string>;

/** A handler that gets its input as a value, and whose result is sent as JSON. */
export function typed<In>(handler: (input: In, call: Call) => unknown): Handler {
  return async (call) => JSON.stringify(await handler(JSON.parse(call.inputJson) as In, call)) ?? "null";
}

/** What a handler works on. */
export interface Call {
  /** The same on every attempt: pass it on as the idempotency key to whatever must not happen twice. */
  readonly callId: string;
  /** From 1. */
  readonly attempt: number;
  /** JSON text, as the caller sent it. */
  readonly inputJson: string;
  /** The whole claim, with labels, namespace, trace context and time left. */
  readonly claim: Claim;
  /** Aborted when the claim is lost; what the handler does then does not count. */
  readonly signal: AbortSignal;
  /**
   * Makes a token with which whoever has it may answer the call later. Store it before `defer`, publish it after: until
   * the deferral is stored it is refused.
   */
  newToken(): string;
  /**
   * Hands the call over for a token of `newToken`; resolves when that is stored. The handler ends then, and what it
   * returns is no answer. Rejects when it is refused: then the handler still has to answer. Without a timeout, in
   * milliseconds, that of the call's policy holds.
   */
  defer(token: string, timeoutMs?: number): Promise<void>;
}

/** Why a handler's signal was aborted. */
export class ClaimLost extends Error {
  override readonly name = "ClaimLost";
}

/** A failure that is meant for the caller. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly dataJson: string;
  /** Whether another attempt makes sense. */
  readonly retryable: boolean;

  constructor(message: string, { data, retryable = false }: { data?: unknown; retryable?: boolean } = {}) {
    super(message);
    this.dataJson = JSON.stringify(data) ?? "";
    this.retryable = retryable;
  }
}

/** Runs a handler and says how it ended; does not reject. */
export async function answerOf(handler: Handler, call: Call, maxResultBytes: number): Promise<Answer> {
  const { claimId, callId } = call.claim;
  const failed = (failure: Failure): Answer =>
    create(AnswerSchema, { claimId, callId, outcome: { case: "failure", value: failure } });
  try {
    const result = await handler(call);
    const bytes = Buffer.byteLength(result);
    if (bytes > maxResultBytes) {
      return failed(
        newFailure(FailureKind.OVERSIZED, `the result has ${bytes} bytes; allowed are ${maxResultBytes}`),
      );
    }
    // Encoding would put U+FFFD in the place of half surrogates, without a word.
    if (!result.isWellFormed()) {
      return failed(newFailure(FailureKind.INVALID_ANSWER, "the result is not valid Unicode"));
    }
    return create(AnswerSchema, { claimId, callId, outcome: { case: "resultJson", value: result } });
  } catch (error) {
    if (error instanceof ToolError) return failed(failureOf(error));
    return failed(newFailure(FailureKind.EXCEPTION, error instanceof Error ? error.message : String(error)));
  }
}

/** The server refuses a failure with more data, in bytes. */
const MAX_DATA = 64 << 10;

function failureOf({ message, dataJson, retryable }: ToolError): Failure {
  const bytes = Buffer.byteLength(dataJson);
  if (bytes <= MAX_DATA) return { ...newFailure(FailureKind.TOOL, message), dataJson, retryable };
  const why = `the failure's data has ${bytes} bytes; allowed are ${MAX_DATA} (of the failure: ${message})`;
  return { ...newFailure(FailureKind.OVERSIZED, why), retryable };
}

/** The server cuts a message at 8 KiB. */
function newFailure(kind: FailureKind, message: string): Failure {
  return create(FailureSchema, { kind, message: message.slice(0, 8_192) });
}

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { ConnectError, createClient, type Client, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import {
  ClaimVerdict_Standing as Standing,
  HeldClaimSchema,
  HelloSchema,
  WorkerService,
  type Ack,
  type Answer,
  type Claim,
  type ClaimCallsResponse,
  type DeferralSchema,
  type HeartbeatRequestSchema,
  type Hello,
} from "@trunkline/proto/worker";
import { newHello, type Held } from "./raw-stream.js";

/** A worker that works by the unary twins, one request at a time or several at once, as the test says. */
export class PollClient {
  readonly hello: Hello;
  readonly rpc: Client<typeof WorkerService>;

  constructor(
    url: string,
    hello: MessageInitShape<typeof HelloSchema> = {},
    transport: Transport = createConnectTransport({ baseUrl: url, httpVersion: "1.1" }),
  ) {
    this.hello = create(HelloSchema, newHello(hello));
    this.rpc = createClient(WorkerService, transport);
  }

  /** Who it is, for every request but a poll. */
  get who(): { readonly sessionId: string; readonly nonce: string } {
    return { sessionId: this.hello.sessionId, nonce: this.hello.nonce };
  }

  /** Its hello, naming these claims. */
  naming(...claims: readonly Held[]): Hello {
    return { ...this.hello, claims: claims.map(held) };
  }

  /** Says hello, naming these claims, and waits for others. */
  poll(
    waitMs: number,
    claims: readonly Held[] = [],
    options: { readonly slots?: number; readonly signal?: AbortSignal } = {},
  ): Promise<ClaimCallsResponse> {
    const { slots = this.hello.slots, signal } = options;
    const hello = { ...this.naming(...claims), slots };
    return this.rpc.claimCalls({ hello, wait: durationFromMs(waitMs) }, signal && { signal });
  }

  /** Polls once, and gives the one claim that comes. */
  async claim(waitMs = 5_000, claims: readonly Held[] = []): Promise<Claim> {
    const response = await this.poll(waitMs, claims);
    const [claim] = response.claims;
    if (claim === undefined || response.claims.length > 1)
      throw new Error(`${response.claims.length} claims came`);
    return claim;
  }

  beat(
    claims: readonly Held[],
    progress: MessageInitShape<typeof HeartbeatRequestSchema>["progress"] = [],
  ): Promise<{ readonly confirmed: string[]; readonly lost: string[] }> {
    return this.rpc.heartbeat({ ...this.who, claims: [...claims], progress });
  }

  async answer({ callId, claimId }: Held, outcome: string | Answer["outcome"]): Promise<Ack | undefined> {
    const given = typeof outcome === "string" ? { case: "resultJson" as const, value: outcome } : outcome;
    const { acks } = await this.rpc.answerCalls({
      ...this.who,
      answers: [{ callId, claimId, outcome: given }],
    });
    return acks[0];
  }

  async defer(deferral: MessageInitShape<typeof DeferralSchema>): Promise<Ack | undefined> {
    return (await this.rpc.deferCall({ ...this.who, deferral })).ack;
  }

  async release(...releases: readonly Held[]): Promise<Ack[]> {
    return (await this.rpc.releaseCalls({ ...this.who, releases: [...releases] })).acks;
  }
}

const held = ({ callId, claimId }: Held) => create(HeldClaimSchema, { callId, claimId });

/** The standings in a poll's response, by claim. */
export function standings({ welcome }: ClaimCallsResponse): Record<string, string> {
  return Object.fromEntries(
    (welcome?.verdicts ?? []).map(({ claimId, standing }) => [claimId, Standing[standing]]),
  );
}

/** The reason with which an item was refused; undefined when it was done. */
export function refusal(ack: Ack | undefined): string | undefined {
  return ack?.problem && Reason[ack.problem.reason];
}

/** The reason with which a request was refused; the message of what is no refusal. */
export async function reasonOf(request: Promise<unknown>): Promise<string> {
  try {
    await request;
  } catch (error) {
    const [problem] = ConnectError.from(error).findDetails(ProblemSchema);
    return problem === undefined ? String(error) : Reason[problem.reason];
  }
  return "it was not refused";
}

import type { DescMethod } from "@bufbuild/protobuf";
import { CallService } from "@trunkline/proto/call";
import { WorkerService } from "@trunkline/proto/worker";
import { LIMITS } from "../core/limits.js";
import { overloaded } from "../exchange/overload.js";

/**
 * Counts the unary requests of a node and refuses those above the limit: a request that would wait for longer than
 * its caller does costs as much as one that helps. Waits cost memory only, and have a limit of their own.
 */
export class RequestLoad {
  #requests = 0;
  #waits = 0;

  /**
   * Carries out a request, if there is room.
   *
   * @throws TrunklineError OVERLOADED
   */
  async count<T>(method: DescMethod, work: () => Promise<T>): Promise<T> {
    if (method === CallService.method.waitCalls || method === WorkerService.method.claimCalls) {
      if (this.#waits >= LIMITS.waitsInFlight) throw overloaded(tooMany(this.#waits, "waits"));
      this.#waits++;
      return work().finally(() => this.#waits--);
    }
    if (this.#requests >= LIMITS.requestsInFlight) throw overloaded(tooMany(this.#requests, "requests"));
    this.#requests++;
    return work().finally(() => this.#requests--);
  }
}

function tooMany(count: number, what: string): string {
  return `this node has ${String(count)} ${what} under way, which is as many as it takes`;
}

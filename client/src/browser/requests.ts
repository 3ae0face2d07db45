import { abortReason, pause } from "../abort.js";
import { isRefusedCredential, mayPass, TrunklineError } from "../errors.js";
import { Backoff, TROUBLE_MS } from "../reconnect.js";
import { Refusals } from "../refusals.js";
import type { ConnectJson } from "./connect-json.js";

/** How a request behaves. */
export interface Trying {
  readonly signal: AbortSignal | undefined;
  /** How long to try again, in milliseconds; infinite for what goes on until it is told to stop. */
  readonly retryForMs: number;
}

/**
 * Sends requests until they are answered. Each of them is safe to repeat, so what a cut or a restart interrupts is
 * sent again, with back-off.
 */
export class Requests {
  readonly rpc: ConnectJson;
  /** Whether there is another token to be had where one is refused. */
  readonly renewsToken: boolean;
  readonly #warn: (message: string) => void;
  /** Whether the outage that lasts has been told of. */
  #told = false;

  /** @param warn told once per outage, when it has lasted a while */
  constructor(rpc: ConnectJson, renewsToken: boolean, warn: (message: string) => void) {
    this.rpc = rpc;
    this.renewsToken = renewsToken;
    this.#warn = warn;
  }

  /** @throws TrunklineError what the server said, or UNAVAILABLE; the signal's reason */
  async send<T>(request: (rpc: ConnectJson) => Promise<T>, { signal, retryForMs }: Trying): Promise<T> {
    const backoff = new Backoff();
    const refusals = new Refusals(this.renewsToken);
    const giveUpAt = performance.now() + retryForMs;
    for (;;) {
      if (signal?.aborted) throw abortReason(signal);
      try {
        const answer = await request(this.rpc);
        this.#told = false;
        return answer;
      } catch (thrown) {
        if (!(thrown instanceof TrunklineError)) throw thrown;
        if (isRefusedCredential(thrown) && !refusals.isFinal(thrown)) continue;
        const pauseMs = thrown.retryAfterMs ?? backoff.next();
        if (!mayPass(thrown) || performance.now() + pauseMs > giveUpAt) throw thrown;
        if (backoff.outageMs() >= TROUBLE_MS) this.tell(`${thrown.message}; trying again`);
        await pause(pauseMs, signal);
      }
    }
  }

  /** Warns, once until a request is answered. */
  tell(message: string): void {
    if (this.#told) return;
    this.#told = true;
    this.#warn(message);
  }
}

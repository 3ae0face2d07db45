import type { DescMethod } from "@bufbuild/protobuf";
import type { Access } from "../access/access.js";
import type { Caller } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import { permit, ruleOf } from "./access-rules.js";

/**
 * The one place at which a request is let in: before its body is read, whatever the protocol that carries it, and
 * whether it is an RPC or a plain route.
 */
export class Gate {
  readonly #access: Access;

  constructor(access: Access) {
    this.#access = access;
  }

  /**
   * Whoever sent this `Authorization` header, if they may use the method; null where it asks nobody.
   *
   * @throws TrunklineError UNAUTHENTICATED, PERMISSION_DENIED
   */
  async admit(method: DescMethod, authorization: string | null): Promise<Caller | null> {
    if (ruleOf(method) === "everybody") return null;
    const caller = await this.#access.authenticate(authorization);
    permit(caller, method);
    return caller;
  }

  /** As {@link admit}, of a method that asks. */
  async admitCaller(method: DescMethod, authorization: string | null): Promise<Caller> {
    const caller = await this.admit(method, authorization);
    if (caller === null) throw new TrunklineError("UNAUTHENTICATED", "the method asks nobody who they are");
    return caller;
  }
}

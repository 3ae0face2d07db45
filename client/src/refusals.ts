import { isRefusedCredential, type TrunklineError } from "./errors.js";

/**
 * Whether a refused credential is the end. One that a function gives may have expired meanwhile, so the function is
 * asked once more; refused again, before the server has accepted any, it is the end as any other is.
 */
export class Refusals {
  readonly #renews: boolean;
  #askedAgain = false;

  /** @param renews whether the key comes from a function */
  constructor(renews: boolean) {
    this.#renews = renews;
  }

  /** Whether an error, which was thrown just now, makes further tries useless. */
  isFinal(error: TrunklineError): boolean {
    if (!isRefusedCredential(error)) return false;
    this.#askedAgain = this.#renews && error.reason === "UNAUTHENTICATED" && !this.#askedAgain;
    return !this.#askedAgain;
  }

  /** The server has answered somebody with the credential. */
  accepted(): void {
    this.#askedAgain = false;
  }
}

import { Mismatch } from "./mismatch.js";

/** Waits for what is to be seen of things that happen, each of which has to be told by {@link Watch.changed}. */
export class Watch {
  readonly #looks = new Set<() => void>();
  #fault: Error | undefined;

  /** Something has happened: everybody looks again. */
  changed(): void {
    for (const look of [...this.#looks]) look();
  }

  /** Ends all waits with an error, those to come too. The first one counts. */
  fail(error: Error): void {
    this.#fault ??= error;
    this.changed();
  }

  /**
   * Looks after everything that happens until there is something to see.
   *
   * @param hint what may help, for the error
   * @throws Mismatch when it is not seen in time; what the look throws; or what went wrong meanwhile
   */
  async until<T>(
    expected: string,
    look: () => T | undefined | false,
    ms: number,
    hint: () => string = () => "",
  ): Promise<T> {
    const seen = await this.#watch(look, ms);
    if (seen !== undefined) return seen;
    throw new Mismatch(expected, `nothing of the kind within ${ms} ms${hint()}`);
  }

  /**
   * Watches for so long, or until it is enough, that something does not happen.
   *
   * @param unwanted says what came, when it did
   * @throws Mismatch when it does
   */
  async nothing(
    expected: string,
    unwanted: () => string | undefined,
    ms: number,
    isEnough: () => boolean = () => false,
  ): Promise<void> {
    await this.#watch(() => {
      const came = unwanted();
      if (came !== undefined) throw new Mismatch(expected, came);
      return isEnough();
    }, ms);
  }

  /** Undefined when it was not seen in time. */
  #watch<T>(look: () => T | undefined | false, ms: number): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer);
        this.#looks.delete(again);
      };
      const again = (): void => {
        try {
          const seen = look();
          if (seen !== undefined && seen !== false) {
            settle();
            resolve(seen);
          } else if (this.#fault !== undefined) {
            settle();
            reject(this.#fault);
          }
        } catch (error) {
          settle();
          reject(error instanceof Error ? error : new Mismatch("no fault of the kit", String(error)));
        }
      };
      const timer = setTimeout(() => {
        settle();
        resolve(undefined);
      }, ms);
      this.#looks.add(again);
      again();
    });
  }
}

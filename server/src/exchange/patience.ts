/** How long a crowd waits for workers before it is looked at what they took. */
const SPELL_MS = 100;
/** So much has to be taken meanwhile for that to be worth it. */
const SPELL_CALLS = 300;
/** How long nothing waits where it was not. */
const REST_MS = 1_000;

/** Tells whether calls had better wait for workers to get room than be queued: only while workers take many. */
export class Patience {
  #spellBegan = -Infinity;
  #takenBefore = 0;
  #restsUntil = -Infinity;

  /** @param taken the calls that workers were given so far */
  isWorthwhile(taken: number, now = performance.now()): boolean {
    if (now < this.#restsUntil) return false;
    const lasted = now - this.#spellBegan;
    if (lasted < SPELL_MS) return true;
    // The last one is long over, or it was well spent.
    if (lasted > 2 * SPELL_MS || taken - this.#takenBefore >= SPELL_CALLS) {
      this.#spellBegan = now;
      this.#takenBefore = taken;
      return true;
    }
    this.#restsUntil = now + REST_MS;
    return false;
  }
}

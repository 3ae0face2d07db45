import type { Access } from "../access/access.js";
import type { Exchange } from "../exchange/exchange.js";
import { touchKeys } from "../store/access.js";

/** Writes down when keys were last used, since this was last done: one statement, and none where no key was used. */
export async function storeKeyUses({ upkeep }: Pick<Exchange, "upkeep">, access: Access): Promise<void> {
  const uses = access.takeUses();
  if (uses.length > 0) await touchKeys(upkeep, uses);
}

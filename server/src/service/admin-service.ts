import type { ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "@trunkline/proto/admin";
import { TrunklineError } from "../core/error.js";

/** AdminService, of which nothing is built yet. */
export function adminService(): ServiceImpl<typeof AdminService> {
  const notYet = (): never => {
    throw new TrunklineError(
      "UNIMPLEMENTED",
      "AdminService is not built yet; this server knows one key, that of TRUNKLINE_ROOT_KEY",
    );
  };
  return {
    createKey: notYet,
    listKeys: notYet,
    revokeKey: notYet,
    createToken: notYet,
    listWorkers: notYet,
    getStats: notYet,
  };
}

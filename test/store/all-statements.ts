import "../../server/src/store/calls-claim.js";
import "../../server/src/store/calls-insert.js";
import "../../server/src/store/calls-read.js";
import "../../server/src/store/calls-save.js";
import "../../server/src/store/database.js";
import "../../server/src/store/due.js";
import "../../server/src/store/migrate.js";
import "../../server/src/store/retention.js";
import "../../server/src/store/runs.js";
import "../../server/src/store/sessions.js";
import "../../server/src/store/toolsets.js";
import { allStatements, type Statement } from "../../server/src/store/statement.js";

/** Every statement of the store; importing this file loads all its modules. */
export const STATEMENTS: readonly Statement[] = allStatements();

import { HandlerContext } from "./context.js";
import { HostToolError } from "./errors.js";
import { InvalidAnswerError } from "./failure.js";
import type { ToolHandler } from "./handler.js";
import { isStandardSchema, type StandardIssue, type StandardSchemaV1 } from "./standard-schema.js";
import type { ToolDefinition } from "./tool-definition.js";

/** How many issues a message names; the data have more. */
const NAMED_ISSUES = 5;
const MAX_ISSUES = 100;

const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/**
 * A handler between its tool's Standard Schemas: it gets what comes out of the input's, and answers what comes out of
 * the output's. Input that does not fit fails the call as `tool`, with the issues as data; a result that does not fit
 * fails it as `invalid_answer`.
 */
export function checkedHandler({ input, output }: ToolDefinition, handler: ToolHandler): ToolHandler {
  if (!isStandardSchema(input) && !isStandardSchema(output)) return handler;
  return async (given, context) => {
    const taken = isStandardSchema(input) ? await checkInput(input, given) : given;
    const returned: unknown = await handler(taken, context);
    // What is returned after a deferral is no result.
    const deferred = context instanceof HandlerContext && context.deferral !== undefined;
    return isStandardSchema(output) && !deferred ? checkResult(output, returned) : returned;
  };
}

async function checkInput(schema: StandardSchemaV1, input: unknown): Promise<unknown> {
  const checked = await schema["~standard"].validate(input);
  if (checked.issues === undefined) return checked.value;
  const issues = checked.issues
    .slice(0, MAX_ISSUES)
    .map(({ message, path = [] }) => ({ message, path: path.map((step) => plain(keyOf(step))) }));
  throw new HostToolError(wordsOf("input", checked.issues), { data: { issues } });
}

async function checkResult(schema: StandardSchemaV1, result: unknown): Promise<unknown> {
  const checked = await schema["~standard"].validate(result);
  if (checked.issues === undefined) return checked.value;
  throw new InvalidAnswerError(wordsOf("result", checked.issues));
}

function wordsOf(root: string, issues: readonly StandardIssue[]): string {
  const named = issues.slice(0, NAMED_ISSUES).map((issue) => `${placeOf(root, issue)}: ${issue.message}`);
  const more = issues.length > NAMED_ISSUES ? `; and ${issues.length - NAMED_ISSUES} more` : "";
  return named.join("; ") + more;
}

/** The place in the value, as in `input.items[3].price`. */
function placeOf(root: string, { path = [] }: StandardIssue): string {
  let place = root;
  for (const step of path) {
    const key = plain(keyOf(step));
    if (typeof key === "number") place += `[${key}]`;
    else place += IDENTIFIER.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
  }
  return place;
}

type Step = NonNullable<StandardIssue["path"]>[number];

const keyOf = (step: Step): PropertyKey => (typeof step === "object" ? step.key : step);

const plain = (key: PropertyKey): string | number => (typeof key === "symbol" ? String(key) : key);

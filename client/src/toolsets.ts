import { create } from "@bufbuild/protobuf";
import { ToolSchema, type Tool as WireTool, type Toolset as WireToolset } from "@trunkline/proto/toolset";
import { MAX_WHOLE, onlyFields, refuseArgument, whole } from "./argument.js";
import { dateFromWire, executorFromWire, executorToWire, type Executor } from "./call.js";
import { TrunklineError } from "./errors.js";
import { toJson } from "./json.js";
import { Page, pageToWire, type PageOptions } from "./page.js";
import { policyFromWire, policyToWire, type Policy } from "./policy.js";
import { present, wellFormed } from "./text.js";
import type { Unary } from "./unary.js";

/** The declaration of one tool. */
export interface ToolDeclaration {
  /** For the model. At most 16 KiB. */
  readonly description: string;
  /** JSON Schema of the input: at most 64 KiB, depth 32, `$ref` only within itself. */
  readonly input?: unknown;
  /** JSON Schema of the result, likewise. Default: anything. */
  readonly output?: unknown;
  /** Default: the defaults of {@link Policy}. */
  readonly policy?: Policy;
  /** Who executes it. Default `worker`. */
  readonly executor?: Executor;
}

/** Tools by their names: 1 to 128 of `[A-Za-z0-9_.-]`. */
export type ToolDeclarations = Readonly<Record<string, ToolDeclaration>>;

/** A named, versioned set of tool declarations. */
export interface Toolset {
  readonly id: string;
  /** From 1; one more at every change. */
  readonly version: number;
  readonly tools: ToolDeclarations;
  readonly createdAt: Date | undefined;
}

const FIELDS: Record<keyof ToolDeclaration, true> = {
  description: true,
  input: true,
  output: true,
  policy: true,
  executor: true,
};

const MAX_SCHEMA_BYTES = 64 * 1024;

/** Toolsets of the project: `client.toolsets`. */
export class Toolsets {
  readonly #unary: Unary;

  /** Use `Trunkline.toolsets`. */
  constructor(unary: Unary) {
    this.#unary = unary;
  }

  /**
   * Makes the toolset, or a new version of it when its tools are others than before; runs that were made
   * before keep theirs.
   */
  async put(id: string, tools: ToolDeclarations): Promise<Omit<Toolset, "tools"> & { changed: boolean }> {
    const name = present(id, "id");
    const given: unknown = tools;
    if (typeof given !== "object" || given === null) {
      throw refuseArgument("tools", "they are missing", "allowed are tools by their names");
    }
    const wire = Object.entries(tools).map(([tool, declaration]) => toolToWire(tool, declaration));
    const put = this.#unary.send((options) =>
      this.#unary.toolsets.putToolset({ id: name, tools: wire }, options),
    );
    const { toolset, changed } = await put.catch((error: unknown) => {
      throw inOurWords(error, Object.keys(tools));
    });
    return { id, version: toolset?.version ?? 0, createdAt: dateFromWire(toolset?.createdAt), changed };
  }

  /** One toolset, at its current version or the one asked for. */
  async get(id: string, version = 0): Promise<Toolset> {
    const request = { id: present(id, "id"), version: whole(version, "version", 0, MAX_WHOLE) };
    const { toolset } = await this.#unary.send((options) =>
      this.#unary.toolsets.getToolset(request, options),
    );
    if (toolset === undefined) throw new TrunklineError("NOT_FOUND", `toolset ${id}: the answer was empty`);
    return toolsetFromWire(toolset);
  }

  /** All toolsets at their current versions, by id. */
  async list(page: PageOptions = {}): Promise<Page<Toolset>> {
    const request = pageToWire(page);
    const { toolsets, nextPageToken } = await this.#unary.send((options) =>
      this.#unary.toolsets.listToolsets(request, options),
    );
    const items = toolsets.map(toolsetFromWire);
    return new Page(items, nextPageToken, (pageToken) => this.list({ ...page, pageToken }));
  }

  /** Takes a toolset out of use: no new run can name it. Runs that pinned it go on. */
  async delete(id: string): Promise<void> {
    const request = { id: present(id, "id") };
    let tries = 0;
    try {
      await this.#unary.send((options) => {
        tries++;
        return this.#unary.toolsets.deleteToolset(request, options);
      });
    } catch (error) {
      // A try before may have been carried out although its answer was lost.
      const repeated = tries > 1 && error instanceof TrunklineError && error.reason === "NOT_FOUND";
      if (!repeated) throw error;
    }
  }
}

/**
 * A declaration as the wire has it.
 *
 * @param field what it is called in messages
 * @throws TrunklineError INVALID_FIELD, INVALID_JSON or LIMIT_EXCEEDED
 */
export function toolToWire(
  name: string,
  tool: ToolDeclaration,
  field = `tools[${JSON.stringify(name)}]`,
): WireTool {
  onlyFields(tool, FIELDS, field);
  const { description, input, output, policy, executor } = tool;
  const wire = create(ToolSchema, {
    name: wellFormed(name, "tools"),
    description: wellFormed(description, `${field}.description`),
  });
  if (input !== undefined) wire.inputSchemaJson = toJson(input, `${field}.input`, MAX_SCHEMA_BYTES);
  if (output !== undefined) wire.outputSchemaJson = toJson(output, `${field}.output`, MAX_SCHEMA_BYTES);
  if (policy !== undefined) wire.policy = policyToWire(policy, `${field}.policy`);
  if (executor !== undefined) wire.executor = executorToWire(executor, `${field}.executor`);
  return wire;
}

/** What a tool's place and fields are called on the wire, at the head of a message. */
const WIRE_FIELD = /^tools\[(\d+)\]([a-z_.]*)/;

/** A refusal that names the fields of the declarations as they were given, not those of the wire. */
function inOurWords(error: unknown, names: readonly string[]): unknown {
  if (!(error instanceof TrunklineError)) return error;
  const rename = (text: string): string =>
    text.replace(WIRE_FIELD, (_, index: string, path: string) => {
      const ours = path
        .replace("_schema_json", "")
        .replace("backoff_", "backoff.")
        .replace(/_([a-z])/g, (__, letter: string) => letter.toUpperCase());
      return `tools[${JSON.stringify(names[Number(index)])}]${ours}`;
    });
  const { reason, message, code, metadata, retryAfterMs } = error;
  const { field } = metadata;
  return new TrunklineError(reason, rename(message), {
    code,
    metadata: field === undefined ? metadata : { ...metadata, field: rename(field) },
    retryAfterMs,
    cause: error.cause,
  });
}

function toolsetFromWire({ id, version, tools, createdAt }: WireToolset): Toolset {
  const declared = tools.map((tool): [string, ToolDeclaration] => [tool.name, toolFromWire(tool)]);
  return { id, version, tools: Object.fromEntries(declared), createdAt: dateFromWire(createdAt) };
}

function toolFromWire(tool: WireTool): ToolDeclaration {
  const { description, inputSchemaJson, outputSchemaJson, policy, executor } = tool;
  return {
    description,
    ...(inputSchemaJson !== "" && { input: JSON.parse(inputSchemaJson) as unknown }),
    ...(outputSchemaJson !== "" && { output: JSON.parse(outputSchemaJson) as unknown }),
    ...(policy !== undefined && { policy: policyFromWire(policy) }),
    executor: executorFromWire(executor),
  };
}

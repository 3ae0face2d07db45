import { TrunklineError } from "./errors.js";

/** Opens a call by the name of its tool. */
export type CallByName<Options> = (tool: string, input: unknown, options?: Options) => Promise<unknown>;

/**
 * Tools as `T` declares them: each function of it, at whatever depth, becomes one that opens a call. Its
 * tool's name is its path, joined by dots.
 */
export type ToolProxy<T, Options> = T extends (input: infer Input) => infer Result
  ? (input: Input, options?: Options) => Promise<Awaited<Result>>
  : { readonly [Segment in keyof T]: ToolProxy<T[Segment], Options> };

/**
 * An object on which every path is a tool. It is no promise and has no symbols, so that awaiting, logging
 * and comparing it opens nothing.
 */
export function toolsProxy<Options>(callByName: CallByName<Options>, path = ""): unknown {
  const known = new Map<string, unknown>();
  const open = (input: unknown, options?: Options): Promise<unknown> => {
    if (path !== "") return callByName(path, input, options);
    const message = "tools: name the tool, as in tools.crm.find_customer(input)";
    return Promise.reject(new TrunklineError("INVALID_FIELD", message, { metadata: { field: "tool" } }));
  };
  return new Proxy(open, {
    get: (_, segment) => {
      // Awaited, it would otherwise be asked for its `then`; written as JSON, for its `toJSON`.
      // Joined to a text, or compared with one, it would be asked for its `toString` and open a call of that name.
      if (segment === Symbol.toPrimitive) return () => (path === "" ? "tools" : `tools.${path}`);
      if (typeof segment === "symbol" || segment === "then" || segment === "toJSON") return undefined;
      let tools = known.get(segment);
      if (tools === undefined) {
        tools = toolsProxy(callByName, path === "" ? segment : `${path}.${segment}`);
        known.set(segment, tools);
      }
      return tools;
    },
    set: () => false,
  });
}

import { inspect } from "node:util";
import { describe, expect, expectTypeOf, test } from "vitest";
import { toolsProxy, type ToolProxy } from "../../client/src/tools-proxy.js";

interface Tools {
  crm: { find_customer(input: { email: string }): Promise<{ id: number }> };
  ping(input: null): string;
}

const made = (): { tools: ToolProxy<Tools, { key?: string }>; opened: unknown[][] } => {
  const opened: unknown[][] = [];
  const proxy = toolsProxy<{ key?: string }>((...args) => {
    opened.push(args);
    return Promise.resolve({ id: 7 });
  });
  return { tools: proxy as ToolProxy<Tools, { key?: string }>, opened };
};

describe("toolsProxy", () => {
  test("a path is the name of a tool", async () => {
    const { tools, opened } = made();
    const customer = await tools.crm.find_customer({ email: "a@b.c" }, { key: "k" });
    expectTypeOf(customer).toEqualTypeOf<{ id: number }>();
    expect(customer).toEqual({ id: 7 });
    await tools.ping(null);
    expect(opened).toEqual([
      ["crm.find_customer", { email: "a@b.c" }, { key: "k" }],
      ["ping", null, undefined],
    ]);
  });

  test("awaiting, logging, comparing it or writing it as text or JSON opens no call", async () => {
    const { tools, opened } = made();
    // eslint-disable-next-line @typescript-eslint/await-thenable -- that is what is tested
    await tools.crm;
    await Promise.resolve(tools);
    inspect(tools);
    expect(JSON.stringify({ tools })).toBe("{}");
    expect(tools.crm).toBe(tools.crm);
    expect([tools.crm.find_customer, "x"].join()).toBe("tools.crm.find_customer,x");
    expect(Number(tools.crm)).toBeNaN();
    expect(opened).toEqual([]);
  });

  test("the proxy itself is no tool", async () => {
    const { tools } = made();
    const call = tools as unknown as (input: unknown) => Promise<unknown>;
    await expect(call(1)).rejects.toThrow(/name the tool/);
  });
});

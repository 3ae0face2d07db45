import { expect, test } from "vitest";
import { makeKey } from "../../server/src/access/issue.js";
import { storeKeyUses } from "../../server/src/maintenance/key-uses.js";
import { Maintenance } from "../../server/src/maintenance/maintenance.js";
import { listKeys } from "../../server/src/store/access.js";
import { SCOPE, useExchanges } from "../exchange/support/exchanges.js";
import { openAccess } from "../support/access.js";

const nodes = useExchanges();

async function stage() {
  const sent: string[] = [];
  const { exchange, faults } = await nodes.start({ onStatement: (name) => void sent.push(name) });
  const access = await openAccess(exchange.db, { rootKey: "root" });
  const { projectId } = SCOPE;
  const make = async (name: string) => {
    const { key, text } = await makeKey(exchange.db, access.book, { projectId, name, rights: ["worker"] });
    const header = `Bearer ${text}`;
    const lastUsedAt = async () =>
      (await listKeys(exchange.db, projectId, "", 1_000)).find(({ id }) => id === key.id)?.lastUsedAt;
    return { header, lastUsedAt, use: () => access.authenticate(header) };
  };
  return { exchange, faults, access, sent, make };
}

test("when a key was used last is known to the minute, and no request writes it down", async () => {
  const { exchange, access, sent, make } = await stage();
  const [often, never] = [await make("often"), await make("never")];
  expect(await often.lastUsedAt()).toBeNull();
  sent.length = 0;
  for (let request = 0; request < 1_000; request++) await often.use();
  await expect(access.authenticate(`${often.header}x`)).rejects.toMatchObject({ reason: "UNAUTHENTICATED" });
  await expect(access.authenticate(often.header.slice(0, -1))).rejects.toThrow();
  expect(sent).toEqual([]);
  await storeKeyUses(exchange, access);
  await storeKeyUses(exchange, access);
  expect(sent).toEqual(["key_touch"]);
  const ageMs = Date.now() - Number(await often.lastUsedAt()) / 1_000;
  expect(ageMs).toBeGreaterThanOrEqual(0);
  expect(ageMs).toBeLessThan(120_000);
  expect(await never.lastUsedAt()).toBeNull();
});

test("an older use that another node writes down later does not set it back", async () => {
  const { exchange, access, make } = await stage();
  const key = await make("moved");
  await key.use();
  await storeKeyUses(exchange, access);
  const then = await key.lastUsedAt();
  const late = { takeUses: () => access.takeUses().map((use) => ({ ...use, agoMs: 3_600_000 })) };
  await key.use();
  await storeKeyUses(exchange, Object.assign(Object.create(access) as typeof access, late));
  expect(await key.lastUsedAt()).toBe(then);
});

test("a node that stops writes down what it has noted", async () => {
  const { exchange, access, faults, make } = await stage();
  const key = await make("last");
  const onError = (error: unknown): void => expect.fail(String(error));
  const maintenance = new Maintenance({ exchange, retentionMs: null, access, onError });
  maintenance.start();
  await key.use();
  await maintenance.stop();
  expect(await key.lastUsedAt()).not.toBeNull();
  expect(faults).toEqual([]);
});

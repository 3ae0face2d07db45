import { expect, test } from "vitest";
import { newName, newRun, open, useExchanges } from "./support/exchanges.js";

const nodes = useExchanges();

test("an end user's single open does not wait until all that another has opened is stored", async () => {
  const { exchange } = await nodes.start();
  const tool = newName("tool");
  const [big, small] = [
    await newRun(exchange, { namespace: "big" }),
    await newRun(exchange, { namespace: "small" }),
  ];
  let stored = 0;
  const opening = Array.from({ length: 4_000 }, async () => {
    await open(exchange, big, { tool });
    stored++;
  });
  await open(exchange, small, { tool });
  expect(stored).toBeLessThan(2_000);
  await Promise.all(opening);
});

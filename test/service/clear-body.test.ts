import { PassThrough } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { withClearCut } from "../../server/src/service/clear-body.js";
import { isFault } from "../../server/src/service/error-map.js";

test("a body that was cut before or while it is read says that its client went away, which is no fault", async () => {
  const cut = new PassThrough();
  cut.destroy();
  const cutLater = new PassThrough();
  cutLater.write("a");
  for (const body of [cut, cutLater]) {
    const read = async (): Promise<void> => {
      for await (const _ of withClearCut(body)) body.destroy();
    };
    const error: unknown = await read().then(
      () => expect.fail("it was read to its end"),
      (thrown: unknown) => thrown,
    );
    expect(ConnectError.from(error).code).toBe(Code.Canceled);
    expect(isFault(error)).toBe(false);
  }
});

test("a body that is whole comes as it is", async () => {
  const body = new PassThrough();
  body.end("abc");
  const chunks: Uint8Array[] = [];
  for await (const chunk of withClearCut(body)) chunks.push(chunk);
  expect(Buffer.concat(chunks).toString()).toBe("abc");
});

import { describe, expect, test } from "vitest";
import { FrameWriter } from "../../server/src/service/frame-writer.js";

interface Frame {
  readonly items: string[];
}

const newFrame = (): Frame => ({ items: [] });
const KIB = 1024;

function put(writer: FrameWriter<Frame>, item: string, bytes = 10): void {
  writer.add(bytes, ({ items }) => items.push(item));
}

async function all(writer: FrameWriter<Frame>): Promise<string[][]> {
  const frames: string[][] = [];
  for await (const { items } of writer.frames()) frames.push(items);
  return frames;
}

describe("FrameWriter", () => {
  test("what is added before the frame leaves goes into one frame, in order", async () => {
    const writer = new FrameWriter(newFrame);
    for (const item of ["a", "b", "c"]) put(writer, item);
    writer.end();
    expect(await all(writer)).toEqual([["a", "b", "c"]]);
  });

  test("a lone item leaves at once, and what follows goes into the next frame", async () => {
    const writer = new FrameWriter(newFrame);
    const frames = writer.frames();
    const first = frames.next();
    put(writer, "a");
    expect((await first).value).toEqual({ items: ["a"] });
    put(writer, "b");
    expect((await frames.next()).value).toEqual({ items: ["b"] });
  });

  test("a frame is closed at 64 KiB, unless one item alone is larger", async () => {
    const writer = new FrameWriter(newFrame);
    put(writer, "a", 40 * KIB);
    put(writer, "b", 24 * KIB);
    put(writer, "c", 1);
    put(writer, "large", 1000 * KIB);
    put(writer, "d", 1);
    writer.end();
    expect(await all(writer)).toEqual([["a", "b"], ["c"], ["large"], ["d"]]);
  });

  test("what was added before an error still leaves, and nothing after it", async () => {
    const writer = new FrameWriter(newFrame);
    put(writer, "a");
    writer.end(new RangeError("over"));
    put(writer, "b");
    writer.end();
    const frames = writer.frames();
    expect((await frames.next()).value).toEqual({ items: ["a"] });
    await expect(frames.next()).rejects.toThrow("over");
  });

  test("a stream that is abandoned ends at once and holds nothing", async () => {
    const writer = new FrameWriter(newFrame);
    put(writer, "a", 100);
    expect(writer.pending()).toEqual([{ items: ["a"] }]);
    writer.abandon();
    expect([writer.pending(), writer.pendingBytes]).toEqual([[], 0]);
    expect(await all(writer)).toEqual([]);
  });

  test("bytes that wait are counted until their frame is taken", async () => {
    const writer = new FrameWriter(newFrame);
    put(writer, "a", 100);
    put(writer, "b", 300 * KIB);
    const frames = writer.frames();
    expect(writer.pendingBytes).toBe(100 + 300 * KIB);
    await frames.next();
    expect(writer.pendingBytes).toBe(300 * KIB);
    await frames.next();
    expect(writer.pendingBytes).toBe(0);
  });

  test("a refill adds more whenever all frames have been taken", async () => {
    let left = 3;
    const writer = new FrameWriter<Frame>(newFrame, async () => {
      if (left-- > 0) put(writer, `refill ${left}`);
      else writer.end();
    });
    put(writer, "a");
    expect(await all(writer)).toEqual([["a"], ["refill 2"], ["refill 1"], ["refill 0"]]);
  });
});

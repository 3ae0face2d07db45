import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { Route, type TransportMode } from "../../client/src/route.js";

const CUT = new ConnectError("Protocol error", Code.Internal);
const GONE = new ConnectError("connect ECONNREFUSED", Code.Unavailable);

/** A route whose server answers single requests, or not, as the test says. */
class Scene {
  answers = true;
  streamsPass = true;
  probes = 0;
  retries = 0;
  readonly warnings: string[] = [];
  readonly route: Route;

  constructor(mode: TransportMode = "auto") {
    this.route = new Route({
      mode,
      url: "http://peer",
      probe: async () => {
        this.probes++;
        if (!this.answers) throw GONE;
      },
      probeStream: async () => {
        if (!this.streamsPass) throw CUT;
      },
      warn: (message) => this.warnings.push(message),
    });
    this.route.onRetry(() => this.retries++);
  }

  /** Something that fails after the last probe was answered. */
  async fail(cause: unknown = CUT, attempt: "stream" | "request" = "stream"): Promise<void> {
    const begunAt = performance.now();
    this.route.failed(attempt, cause, begunAt);
    // The answer to the probe.
    await vi.advanceTimersByTimeAsync(1);
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe("the way that is taken", () => {
  test("becomes that of single requests when three streams in a row failed and each time a request got through", async () => {
    const scene = new Scene();
    await scene.fail();
    await scene.fail();
    expect(scene.route.way).toBe("stream");
    await scene.fail();
    expect(scene.route).toMatchObject({ way: "poll", next: "poll" });
    expect(scene.warnings).toEqual([
      "no stream passes to http://peer, though single requests do ([internal] Protocol error); " +
        "working by requests over HTTP/1.1, and trying a stream again in 5m",
    ]);
  });

  test.each(["stream", "request"] as const)(
    "stays that of streams while the server is away, however often a %s fails",
    async (attempt) => {
      const scene = new Scene();
      scene.answers = false;
      for (let times = 0; times < 20; times++) await scene.fail(GONE, attempt);
      // It is there again, and what fails had been begun before.
      scene.answers = true;
      const begunAt = performance.now() - 1;
      await scene.fail(GONE, attempt);
      for (let times = 0; times < 20; times++) scene.route.failed(attempt, GONE, begunAt);
      await vi.advanceTimersByTimeAsync(1);
      expect(scene.route.way).toBe("stream");
      expect(scene.warnings).toEqual([]);
    },
  );

  test("stays that of streams when a server comes and goes: each answer to a stream counts anew", async () => {
    const scene = new Scene();
    for (let times = 0; times < 10; times++) {
      await scene.fail();
      await scene.fail();
      scene.route.passed("stream");
    }
    expect(scene.route.way).toBe("stream");
    // Where streams have passed, more of them have to fail.
    for (let times = 0; times < 5; times++) await scene.fail();
    expect(scene.route.way).toBe("stream");
    await scene.fail();
    expect(scene.route.way).toBe("poll");
  });

  test("is not changed by what the server itself says", async () => {
    const scene = new Scene();
    const problem = create(ProblemSchema, { reason: Reason.UNAVAILABLE, message: "shutting down" });
    const said = new ConnectError("shutting down", Code.Unavailable, undefined, [
      { desc: ProblemSchema, value: problem },
    ]);
    for (const cause of [said, new ConnectError("no", Code.PermissionDenied)]) {
      for (let times = 0; times < 5; times++) await scene.fail(cause);
    }
    expect(scene).toMatchObject({ probes: 0, warnings: [] });
  });

  test("is that of requests where HTTP/2 requests fail and no stream was asked for", async () => {
    const scene = new Scene();
    for (let times = 0; times < 3; times++) await scene.fail(CUT, "request");
    expect(scene.route.way).toBe("poll");
  });

  test("is not changed by single failures among requests that are answered", async () => {
    const scene = new Scene();
    for (let times = 0; times < 10; times++) {
      await scene.fail(CUT, "request");
      scene.route.passed("request");
    }
    expect(scene.route.way).toBe("stream");
  });

  test.each(["stream", "poll"] as const)("is always the one that was asked for: %s", async (mode) => {
    const scene = new Scene(mode);
    for (let times = 0; times < 10; times++) await scene.fail();
    expect(scene.route.way).toBe(mode);
    expect(scene).toMatchObject({ probes: 0, warnings: [] });
  });
});

describe("a stream", () => {
  const fallenBack = async (): Promise<Scene> => {
    const scene = new Scene();
    for (let times = 0; times < 3; times++) await scene.fail();
    return scene;
  };

  test("is tried again after minutes, beside the requests, and again when it fails", async () => {
    const scene = await fallenBack();
    for (let times = 1; times <= 3; times++) {
      await vi.advanceTimersByTimeAsync(299_000);
      expect(scene.retries).toBe(times - 1);
      await vi.advanceTimersByTimeAsync(76_000);
      expect(scene.retries).toBe(times);
      expect(scene.route).toMatchObject({ way: "poll", next: "stream" });
      await scene.fail();
      expect(scene.route).toMatchObject({ way: "poll", next: "poll" });
    }
    expect(scene.warnings).toHaveLength(1);
  });

  test("is not tried while nothing of another one comes back", async () => {
    const scene = await fallenBack();
    scene.streamsPass = false;
    await vi.advanceTimersByTimeAsync(375_000);
    expect(scene.retries).toBe(0);
    expect(scene.route).toMatchObject({ way: "poll", next: "poll" });
    scene.streamsPass = true;
    await vi.advanceTimersByTimeAsync(375_000);
    expect(scene.retries).toBe(1);
  });

  test("that passes then brings all back to streams, with a word", async () => {
    const scene = await fallenBack();
    await vi.advanceTimersByTimeAsync(375_000);
    scene.route.passed("stream");
    expect(scene.route).toMatchObject({ way: "stream", next: "stream" });
    expect(scene.warnings.slice(1)).toEqual(["streams pass to http://peer again"]);
    expect(scene.retries).toBe(2);
  });

  test("may take less time to its welcome before one has passed, where something else can be tried", () => {
    expect(new Scene("stream").route.welcomeMs).toBe(10_000);
    const { route } = new Scene();
    expect(route.welcomeMs).toBe(5_000);
    route.passed("stream");
    expect(route.welcomeMs).toBe(10_000);
  });
});

test("a transport that there is not is refused", () => {
  expect(() => new Trunkline({ transport: "http" as never })).toThrow(
    /^transport: "http"; allowed are auto, stream, poll$/,
  );
});

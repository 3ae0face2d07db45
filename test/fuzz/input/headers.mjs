import { hostileText } from "./values.mjs";

/** @typedef {import("../../fault-run/random.mjs").Random} Random */

const CONTENT_TYPES = [
  ...[
    "application/json",
    "application/proto",
    "application/grpc",
    "application/grpc+proto",
    "application/grpc+json",
  ],
  ...[
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web+json",
    "application/grpc-web-text",
  ],
  ...[
    "application/connect+json",
    "application/connect+proto",
    "application/json; charset=utf-8",
    "text/plain",
  ],
  ...[
    "application/json;charset=utf-16",
    "APPLICATION/JSON",
    "application/jsonx",
    "application/grpc+thrift",
    "",
    " ",
    "/",
  ],
  ...[
    "multipart/form-data",
    "application/x-www-form-urlencoded",
    "application/json, application/proto",
    "a".repeat(3_000),
  ],
];
const GRPC_TIMEOUTS = [
  "1S",
  "100m",
  "1n",
  "0S",
  "99999999H",
  "999999999H",
  "-1S",
  "1",
  "S",
  "1.5S",
  "1X",
  " 1S",
  "1S ",
  "",
];
const CONNECT_TIMEOUTS = [
  "1000",
  "1",
  "0",
  "9999999999",
  "99999999999",
  "-1",
  "1.5",
  "1e3",
  "NaN",
  "",
  " 1",
  "0x10",
  "2147483648",
];
const ENCODINGS = ["gzip", "br", "identity", "deflate", "zstd", "gzip,br", "", "*", "x".repeat(500)];
const VERSIONS = ["1", "2", "", "0", "one", "1, 1"];

/** @type {readonly ((random: Random) => [string, string])[]} */
const OTHERS = [
  (random) => ["grpc-timeout", random.pick(GRPC_TIMEOUTS)],
  (random) => ["connect-timeout-ms", random.pick(CONNECT_TIMEOUTS)],
  (random) => ["connect-protocol-version", random.pick(VERSIONS)],
  (random) => ["grpc-encoding", random.pick(ENCODINGS)],
  (random) => ["grpc-accept-encoding", random.pick(ENCODINGS)],
  (random) => ["content-encoding", random.pick(ENCODINGS)],
  (random) => ["accept-encoding", random.pick(ENCODINGS)],
  (random) => ["connect-content-encoding", random.pick(ENCODINGS)],
  (random) => ["connect-accept-encoding", random.pick(ENCODINGS)],
  (random) => ["origin", random.pick(["https://evil.example", "null", "http://localhost", "", "file://"])],
  () => ["access-control-request-method", "POST"],
  (random) => ["cookie", `a=${"x".repeat(random.pick([1, 100, 9_000]))}`],
  (random) => ["x-forwarded-for", visible(hostileText(random))],
  (random) => ["traceparent", visible(hostileText(random))],
  (random) => ["some-data-bin", random.pick(["", "AAAA", "!!!", "A", "=".repeat(50)])],
  (random) => ["grpc-message", visible(hostileText(random))],
  (random) => ["grpc-status", random.pick(["0", "13", "-1", "x"])],
  (random) => [
    visible(hostileText(random)).replace(/[^a-zA-Z0-9-]/g, "-") || "x",
    visible(hostileText(random)),
  ],
  (random) => ["user-agent", visible("\u00e9".repeat(random.int(1, 400)))],
  () => ["expect", "100-continue"],
  () => ["range", "bytes=0-99999999999"],
];

/**
 * A header that a client may send, or had better not.
 *
 * @param {Random} random
 * @returns {[name: string, value: string]}
 */
export function anyHeader(random) {
  return random.pick(OTHERS)(random);
}

/** @param {Random} random */
export function anyContentType(random) {
  // One of a kind, in case somebody keeps them.
  if (random.chance(0.03)) return `application/json; x=${random.int(0, 2 ** 31)}${"y".repeat(10_000)}`;
  return random.pick(CONTENT_TYPES);
}

/**
 * What a header's value may have, as far as HTTP libraries let it pass.
 *
 * @param {string} text
 */
export function visible(text) {
  return Buffer.from(text)
    .toString("latin1")
    .replace(/[^\t\x20-\x7e\x80-\xff]/g, "")
    .trim();
}

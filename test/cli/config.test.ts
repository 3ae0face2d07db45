import { describe, expect, test } from "vitest";
import { readDatabaseUrl, readDevConfig, readServeConfig } from "../../server/src/config.js";

const DATABASE_URL = "postgres://user:hush@db.example/name";
const KEY = { TRUNKLINE_ROOT_KEY: "a-root-key", DATABASE_URL };

describe("serve", () => {
  test("takes its key from the environment and has defaults for the rest", () => {
    expect(readServeConfig({}, KEY)).toEqual({
      host: "127.0.0.1",
      port: 7788,
      heartbeatIntervalMs: 5_000,
      retentionMs: null,
      maxConnections: 10,
      maxClientConnections: 10_000,
      corsOrigins: [],
      logLevel: "info",
      databaseUrl: DATABASE_URL,
      rootKey: "a-root-key",
      insecure: false,
      pooler: false,
      quotas: {},
      tls: null,
    });
  });

  test("a flag goes before the environment", () => {
    const env = { ...KEY, TRUNKLINE_PORT: "1000" };
    expect(readServeConfig({}, env).port).toBe(1000);
    expect(readServeConfig({ port: "2000" }, env).port).toBe(2000);
    expect(readServeConfig({ databaseUrl: "postgresql://other/x" }, env).databaseUrl).toBe(
      "postgresql://other/x",
    );
  });

  test("is told of a pooler", () => {
    expect(readServeConfig({ pooler: true }, KEY)).toMatchObject({ pooler: true });
  });

  test("takes an empty root key for none, which the keys in the database may make up for", () => {
    for (const env of [{ DATABASE_URL }, { DATABASE_URL, TRUNKLINE_ROOT_KEY: "" }]) {
      expect(readServeConfig({}, env)).toMatchObject({ rootKey: null, insecure: false });
    }
    expect(readServeConfig({ insecure: true }, { DATABASE_URL })).toMatchObject({
      rootKey: null,
      insecure: true,
    });
  });

  test("does not repeat a key or a connection string that it refuses", () => {
    expect(() => readServeConfig({}, { ...KEY, TRUNKLINE_ROOT_KEY: "hush\n" })).toThrow(/^(?!.*hush)/s);
    expect(() => readDatabaseUrl("mysql://user:hush@host", {})).toThrow(/^--database-url: (?!.*hush)/);
  });

  test.each([
    [{ port: "70000" }, '--port: "70000"; allowed are whole numbers from 0 to 65535'],
    [{ port: "1e3" }, '--port: "1e3"'],
    [{ retention: "30" }, "--retention"],
    [{ heartbeatInterval: "1m" }, '--heartbeat-interval: "1m"; allowed are 10ms to 20s'],
    [{ pool: "0" }, '--pool: "0"; allowed are whole numbers from 2 to 1000'],
    [{ logLevel: "loud" }, "allowed are debug, info, warn, error, silent"],
    [{ tlsCert: "cert.pem" }, "--tls-key: is not given, but --tls-cert is"],
    [{ tlsKey: "key.pem" }, "--tls-cert: is not given, but --tls-key is"],
    [{ host: "" }, "--host"],
    [{ maxConnections: "0" }, '--max-connections: "0"; allowed are whole numbers from 1 to 1000000'],
  ])("refuses %j with what is allowed", (flags, message) => {
    expect(() => readServeConfig(flags, KEY)).toThrow(message);
  });
});

describe("a host that other machines reach", () => {
  const tls = { tlsCert: "cert.pem", tlsKey: "key.pem" };

  test.each(["0.0.0.0", "::", "192.168.1.1", "db.example", "127.0.0.1.example.com", "127.0.0.300"])(
    "is refused without TLS: %s",
    (host) => {
      expect(() => readServeConfig({ host }, KEY)).toThrow(
        /^--host: .* is not loopback.*--tls-cert and --tls-key.*--insecure-plaintext/,
      );
      expect(readServeConfig({ host, ...tls }, KEY).host).toBe(host);
      expect(readServeConfig({ host, insecurePlaintext: true }, KEY).host).toBe(host);
    },
  );

  test("is none of these", () => {
    for (const host of ["127.0.0.1", "127.8.9.1", "::1", "localhost"]) {
      expect(readServeConfig({ host }, KEY).host).toBe(host);
    }
  });
});

describe("origins", () => {
  const NAMED = "https://app.example, http://localhost:5173\nhttps://[::1]:8443";
  const names = ["https://app.example", "http://localhost:5173", "https://[::1]:8443"];

  test("come from flags, else from the environment", () => {
    const env = { ...KEY, TRUNKLINE_CORS_ORIGINS: NAMED };
    expect(readServeConfig({}, env).corsOrigins).toEqual(names);
    expect(readServeConfig({ corsOrigin: ["https://other.example"] }, env).corsOrigins).toEqual([
      "https://other.example",
    ]);
    expect(readServeConfig({ corsOrigin: names }, KEY).corsOrigins).toEqual(names);
    expect(readDevConfig({}, env).corsOrigins).toEqual(names);
  });

  test.each([
    ...[
      "*",
      "null",
      "",
      "app.example",
      "https://",
      "https://*.example",
      "https://app.example,https://b.example",
    ],
    ...["ftp://app.example", "file:///app", "https://user:word@app.example", "javascript:alert(1)"],
  ])("are refused when no browser would send them: %j", (origin) => {
    expect(() => readServeConfig({ corsOrigin: [origin] }, KEY)).toThrow(/^--cors-origin: .*; allowed are/);
  });

  test.each([
    ["https://app.example/", "https://app.example"],
    ["https://app.example/path?query", "https://app.example"],
    ["https://App.Example", "https://app.example"],
    ["https://app.example:443", "https://app.example"],
    ["http://bücher.example", "http://xn--bcher-kva.example"],
  ])("that are written in another way are told how: %s", (origin, meant) => {
    expect(() => readServeConfig({}, { ...KEY, TRUNKLINE_CORS_ORIGINS: origin })).toThrow(
      `this one would be ${meant}`,
    );
  });
});

describe("dev", () => {
  test("brings its own database unless DATABASE_URL or a folder is named", () => {
    const embedded = (dataDir: string, isDefault: boolean): object => ({
      database: { kind: "embedded", dataDir, isDefault },
    });
    expect(readDevConfig({}, {})).toMatchObject(embedded(".trunkline/pg", true));
    expect(readDevConfig({}, { DATABASE_URL })).toMatchObject({
      database: { kind: "url", url: DATABASE_URL },
    });
    expect(readDevConfig({ data: "here" }, { DATABASE_URL })).toMatchObject(embedded("here", false));
  });

  test.each(["127.0.0.1", "127.8.9.1", "::1", "localhost"])("listens on %s", (host) => {
    expect(readDevConfig({ host }, {}).host).toBe(host);
  });

  test.each(["0.0.0.0", "::", "192.168.1.1", "example.com", "127.0.0.1.example.com"])(
    "does not listen on %s, since it asks for no key",
    (host) => {
      expect(() => readDevConfig({ host }, {})).toThrow(/is not loopback.*trunkline serve/);
    },
  );
});

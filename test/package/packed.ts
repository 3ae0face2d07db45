import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The root of the repository. */
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Our packages by name, and their folders. */
const FOLDERS = { "@trunkline/proto": "gen", "@trunkline/sdk": "client", trunkline: "server" } as const;

/** The name of one of the packages that are published from here. */
export type PackageName = keyof typeof FOLDERS;

/** What a test reads of a package.json. */
export interface Manifest {
  readonly name: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

const isOurs = (name: string): name is PackageName => name in FOLDERS;

const readManifest = (folder: string): Manifest =>
  JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));

/** The package.json of one of our packages. */
export const manifestOf = (name: PackageName): Manifest => readManifest(path.join(ROOT, FOLDERS[name]));

/** The paths that npm would publish of each of our packages. */
export const packedFiles = (): Record<PackageName, string[]> => {
  const workspaces = Object.values(FOLDERS).flatMap((folder) => ["--workspace", folder]);
  const stdout = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts", ...workspaces], {
    cwd: ROOT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  const packed: { name: PackageName; files: { path: string }[] }[] = JSON.parse(stdout);
  const entries = packed.map(({ name, files }) => [name, files.map((file) => file.path)] as const);
  return Object.fromEntries(entries) as Record<PackageName, string[]>;
};

/** Where a package that is installed here finds one that it depends on, as Node looks for it. */
const resolve = (name: string, from: string): string | undefined => {
  for (let folder = from; ; folder = path.dirname(folder)) {
    const candidate = path.join(folder, "node_modules", name);
    if (existsSync(path.join(candidate, "package.json"))) return candidate;
    if (folder === path.dirname(folder)) return undefined;
  }
};

/**
 * The names of everything that comes along when one of our packages is installed, itself left out.
 * Optional packages for other platforms, which are not installed here, are named and not followed.
 */
export const closureOf = (name: PackageName): Set<string> => {
  const names = new Set<string>();
  const visit = (folder: string): void => {
    const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } =
      readManifest(folder);
    for (const dependency of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      // An optional peer comes along with whoever installs it.
      if (names.has(dependency) || peerDependenciesMeta?.[dependency]?.optional === true) continue;
      names.add(dependency);
      const installed = isOurs(dependency)
        ? path.join(ROOT, FOLDERS[dependency])
        : resolve(dependency, folder);
      if (installed !== undefined) visit(installed);
    }
  };
  visit(path.join(ROOT, FOLDERS[name]));
  return names;
};

/**
 * Puts a package into `node_modules` of a folder as an install from the registry would: ours as the
 * files that are published, their declared dependencies, and nothing else beside them.
 */
export const install = (name: PackageName, into: string, files = packedFiles()): void => {
  const target = path.join(into, "node_modules", name);
  if (existsSync(target)) return;
  for (const file of files[name]) {
    cpSync(path.join(ROOT, FOLDERS[name], file), path.join(target, file));
  }
  for (const dependency of Object.keys(manifestOf(name).dependencies ?? {})) {
    if (isOurs(dependency)) install(dependency, into, files);
    else link(dependency, into);
  }
};

const link = (name: string, into: string): void => {
  const target = path.join(into, "node_modules", name);
  const source = resolve(name, ROOT);
  if (source === undefined || existsSync(target)) return;
  mkdirSync(path.dirname(target), { recursive: true });
  symlinkSync(source, target, "junction");
};

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { build, type Rolldown } from "vite";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** The file that the package exports. */
export const ENTRY = createRequire(import.meta.url).resolve("@trunkline/sdk/browser");

/** What a page gets of the browser's entry. */
export interface BrowserBundle {
  /** A script that puts the entry's exports on the global `trunkline`. */
  readonly code: string;
  /** Files of which something is in it, from the root. */
  readonly modules: readonly string[];
}

/** Bundles `@trunkline/sdk/browser`, as it is built and as its package exports it, for a page. */
export async function bundleForBrowser(): Promise<BrowserBundle> {
  const built = await build({
    root: ROOT,
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      lib: { entry: ENTRY, formats: ["iife"], name: "trunkline", fileName: "trunkline" },
    },
  });
  // Neither several formats nor watching was asked for.
  const [{ output }] = built as Rolldown.RolldownOutput[] as [Rolldown.RolldownOutput];
  const modules = Object.entries(output[0].modules).filter(([, { renderedLength }]) => renderedLength > 0);
  return { code: output[0].code, modules: modules.map(([file]) => file.replace(ROOT, "")) };
}

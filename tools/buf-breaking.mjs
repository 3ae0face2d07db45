/**
 * Holds the protocol against the commit before it: HEAD while its change is uncommitted, else HEAD's
 * parent, because on a clean clone HEAD is the change itself. `BUF_AGAINST` names another commit.
 * Says so and passes where there is nothing to compare with: no git, a shallow clone, no protocol yet.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { read, run } from "./run.mjs";

const CONTRACT = ["buf.yaml", "proto"];

const isDirty = read("git", ["status", "--porcelain", "--", ...CONTRACT]) !== "";
const against = process.env["BUF_AGAINST"] ?? (isDirty ? "HEAD" : "HEAD~1");

/** Why there is nothing to compare with, if so. */
const reason = () => {
  if (read("git", ["rev-parse", "--verify", "--quiet", `${against}^{commit}`]) === undefined) {
    return `there is no commit ${against} here`;
  }
  const present = read("git", ["ls-tree", "--name-only", against, "--", ...CONTRACT]);
  return present === CONTRACT.join("\n") ? undefined : `${against} has no protocol yet`;
};

const nothing = reason();
if (nothing === undefined) {
  const folder = mkdtempSync(path.join(tmpdir(), "trunkline-proto-"));
  try {
    // An archive rather than `.git#ref=…`: buf would clone, which a shallow clone does not allow.
    const archive = path.join(folder, "against.tar");
    const passed =
      run("git", ["archive", "--format=tar", `--output=${archive}`, against, "--", ...CONTRACT]) &&
      run("buf", ["breaking", "--against", archive]);
    process.exitCode = passed ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
} else if (process.env["BUF_AGAINST"] === undefined) {
  console.log(`nothing to compare the protocol with: ${nothing}`);
} else {
  console.error(`BUF_AGAINST names a commit to compare with, but ${nothing}`);
  process.exitCode = 1;
}

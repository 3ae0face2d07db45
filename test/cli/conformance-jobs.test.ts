import { expect, test } from "vitest";
import { trunkline } from "./command.js";

test("as many scenarios as wanted run at once, without a word of Node's about listeners", async () => {
  const only = Array.from({ length: 12 }, (_, index) => index + 1).join();
  const program = [process.execPath, "-e", ""];
  const { status, stdout, stderr } = await trunkline([
    "conformance",
    ...["--jobs", "12", "--only", only, "--"],
    ...program,
  ]);
  expect(stderr).toBe("");
  expect(stdout).toMatch(/\n0 of 12 scenarios passed; /);
  expect(status).toBe(1);
});

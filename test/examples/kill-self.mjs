// Loaded before a program: kills it (SIGKILL) when its event loop calls back for the KILL_AT-th time since its first
// note, which is between any two things that it waits for. Without KILL_AT it tells, at its end, how many there were.
import { createHook } from "node:async_hooks";
import { writeSync } from "node:fs";

const killAt = Number(process.env["KILL_AT"] ?? 0);
let armed = false;
let callbacks = 0;

createHook({
  before: () => {
    if (armed && ++callbacks === killAt) process.kill(process.pid, "SIGKILL");
  },
}).enable();

const { stderr } = process;
const write = stderr.write.bind(stderr);
stderr.write = (/** @type {string} */ text) => {
  armed = true;
  return write(text);
};

if (killAt === 0) process.once("exit", () => writeSync(2, `callbacks: ${callbacks}\n`));

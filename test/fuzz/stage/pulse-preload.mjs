/**
 * Preloaded into the server under test: whenever its event loop has stood still for long, it writes for how long, and
 * how much of that time the process was computing, as a line of JSON into the file that PULSE_FILE names.
 */
import { appendFileSync } from "node:fs";

const file = process.env["PULSE_FILE"] ?? "";
const BEAT_MS = 50;
const STALL_MS = 300;

let at = performance.now();
let cpu = process.cpuUsage();
setInterval(() => {
  const now = performance.now();
  const used = process.cpuUsage(cpu);
  const stalledMs = now - at - BEAT_MS;
  if (stalledMs > STALL_MS) {
    const cpuMs = (used.user + used.system) / 1_000;
    appendFileSync(
      file,
      `${JSON.stringify({ stalledMs: Math.round(stalledMs), cpuMs: Math.round(cpuMs) })}\n`,
    );
  }
  at = now;
  cpu = process.cpuUsage();
}, BEAT_MS).unref();

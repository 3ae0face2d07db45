import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Where distributions put it; some have a folder for each architecture in between. */
const LIBRARY = "faketime/libfaketime.so.1";
const FOLDERS = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"];

/** The library that shifts a process's clock; undefined where it is not installed. */
export function findFaketime() {
  return FOLDERS.filter((folder) => existsSync(folder))
    .flatMap((folder) => [folder, ...readdirSync(folder).map((name) => join(folder, name))])
    .map((folder) => join(folder, LIBRARY))
    .find((file) => existsSync(file));
}

/**
 * The environment of a process whose clock a file shifts while it runs.
 *
 * @param {string} library
 * @param {string} file
 * @returns {NodeJS.ProcessEnv}
 */
export function faketimeEnvironment(library, file) {
  if (!existsSync(file)) shiftClock(file, 0);
  return {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_CACHE_DURATION: "1",
    // Shared memory is named by process id, and what a killed process leaves is in the way of the next.
    FAKETIME_DISABLE_SHM: "1",
    // Else Node's timers hang.
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    FAKETIME_DONT_RESET: "1",
  };
}

/**
 * @param {string} file
 * @param {number} seconds
 */
export function shiftClock(file, seconds) {
  writeFileSync(file, `${seconds < 0 ? "-" : "+"}${Math.abs(seconds)}\n`);
}

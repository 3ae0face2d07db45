/**
 * Prints a test report's totals as one line, `N passed, N failed[, N skipped]`.
 * Usage: node tools/test-totals.mjs REPORT STATUS, where STATUS is what the whole run ended with: when
 * it is not 0 and no test failed (a step before the tests did, or the report is missing), that counts
 * as one failure. Ends with status 1 when anything failed.
 */

import { existsSync, readFileSync } from "node:fs";

/**
 * What is read of vitest's JSON report.
 *
 * @typedef {object} Report
 * @property {number} numPassedTests
 * @property {number} numFailedTests
 * @property {number} numPendingTests
 * @property {number} numTodoTests
 * @property {{ status: string, assertionResults: { status: string }[] }[]} testResults
 */

/** @type {Report} */
const NO_TESTS = {
  numPassedTests: 0,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [],
};

const [file = "", status = "0"] = process.argv.slice(2);
/** @type {Report} */
const report = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : NO_TESTS;

/** Files that failed as a whole: their import or a hook threw, and no test of theirs says so. */
const brokenFiles = report.testResults.filter(
  ({ status, assertionResults }) =>
    status === "failed" && assertionResults.every((result) => result.status !== "failed"),
).length;

const counted = report.numFailedTests + brokenFiles;
const failed = counted === 0 && status !== "0" ? 1 : counted;
const skipped = report.numPendingTests + report.numTodoTests;

console.log(`${report.numPassedTests} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
if (failed > 0) process.exitCode = 1;

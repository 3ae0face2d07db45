import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Where jobs wait and reports are put. */
const { JOBS_DIR = join(tmpdir(), "trunkline-async-tools") } = process.env;

/**
 * A report to render, kept under the id of the call that it answers.
 *
 * @typedef {object} Job
 * @property {string} callId
 * @property {number} attempt Keeps the answer of an attempt that a retry has replaced from counting.
 * @property {string} month Such as `2025-03`.
 */

/**
 * Keeps a job; again, for a call that is tried again, it replaces the one before.
 *
 * @param {Job} job
 */
export async function saveJob(job) {
  await mkdir(JOBS_DIR, { recursive: true });
  // In place at once: whoever lists the folder sees whole files.
  const draft = `${pathOf(job)}.draft`;
  await writeFile(draft, JSON.stringify(job));
  await rename(draft, pathOf(job));
}

/** @returns {Promise<Job[]>} Those that wait. */
export async function listJobs() {
  const names = await readdir(JOBS_DIR).catch(() => []);
  const jobs = names.filter((name) => name.endsWith(".job.json")).sort();
  return Promise.all(jobs.map(async (name) => JSON.parse(await readFile(join(JOBS_DIR, name), "utf8"))));
}

/**
 * Takes a job out whose call has ended.
 *
 * @param {Job} job
 */
export async function removeJob(job) {
  await rm(pathOf(job), { force: true });
}

/**
 * Writes a report.
 *
 * @param {Job} job
 * @param {string} text
 * @returns {Promise<string>} Its file.
 */
export async function saveReport(job, text) {
  const file = join(JOBS_DIR, `sales-${job.month}.md`);
  await writeFile(file, text);
  return file;
}

/** @type {(job: Job) => string} */
const pathOf = ({ callId }) => join(JOBS_DIR, `${callId.replaceAll("/", "-")}.job.json`);

// Measures several subjects by turns, so that a busy moment of the machine does not meet only one of them.

/**
 * Samples of each subject: the first of every one, then the second of every one, and so on.
 *
 * @template Subject, Sample
 * @param {number} runs How many samples of each.
 * @param {readonly Subject[]} subjects
 * @param {(subject: Subject, run: number) => Promise<Sample>} sample
 * @returns {Promise<Map<Subject, Sample[]>>}
 */
export async function byTurns(runs, subjects, sample) {
  /** @type {Map<Subject, Sample[]>} */
  const samples = new Map(subjects.map((subject) => [subject, []]));
  for (let run = 0; run < runs; run++) {
    for (const subject of subjects) samples.get(subject).push(await sample(subject, run));
  }
  return samples;
}

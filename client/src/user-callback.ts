/**
 * Calls what the user has given. It may throw, or return a promise that rejects; neither may reach the machinery
 * that calls it, nor end the process.
 *
 * @param tell is told of the fault; `console.error` unless given
 */
export function callUser(
  name: string,
  callback: () => unknown,
  tell: (fault: unknown) => void = (fault) => console.error(`${name} threw`, fault),
): void {
  try {
    const returned = callback();
    if (typeof returned === "object" && returned !== null) Promise.resolve(returned).catch(tell);
  } catch (fault) {
    tell(fault);
  }
}

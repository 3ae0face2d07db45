const SHOWN = 3;

/**
 * A few names that somebody who wrote `name` may have meant: those that share most of its beginning and end;
 * the first ones where none does. Linear in the names' length, since anybody can ask for it.
 */
export function nearNames(name: string, names: Iterable<string>): string[] {
  return Array.from(names, (each, index) => ({ each, index, shared: sharedEnds(name, each) }))
    .sort((a, b) => b.shared - a.shared || a.index - b.index)
    .slice(0, SHOWN)
    .map(({ each }) => each);
}

/** Characters that two texts share at their beginning and at their end, whatever their case. */
function sharedEnds(left: string, right: string): number {
  const a = left.toLowerCase();
  const b = right.toLowerCase();
  const most = Math.min(a.length, b.length);
  let before = 0;
  while (before < most && a[before] === b[before]) before++;
  let after = 0;
  while (after < most - before && a[a.length - 1 - after] === b[b.length - 1 - after]) after++;
  return before + after;
}

/** Whether JavaScript's own parser takes a text: what others are measured by. */
export function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Takes no cell of its own: combining marks, joiners, variation selectors. */
const ZERO = /^[\p{Mn}\p{Me}\u200b-\u200d\ufeff]$/u;
/** Takes two cells: East Asian wide and full-width forms, and emoji. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\p{Emoji_Presentation}\u{1f300}-\u{1f64f}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]$/u;
const PLAIN = /^[\x20-\x7e]*$/;

function widthOf(character: string): number {
  if (PLAIN.test(character)) return 1;
  if (ZERO.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** How many cells of a terminal a text takes, as nearly as can be told without asking it. */
export function displayWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += widthOf(character);
  return width;
}

/** A text cut to at most `cells` cells, the ellipsis included; at least one. */
export function cutToWidth(text: string, cells: number): string {
  if (displayWidth(text) <= cells) return text;
  let cut = "";
  let width = 1;
  for (const character of text) {
    width += widthOf(character);
    if (width > cells) break;
    cut += character;
  }
  return `${cut}…`;
}

/** A bar of text for a terminal. */

const eighths = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']

/** A share between 0 and 1 as a bar of at most this many characters; any share above 0 is visible. */
export function renderBar(share: number, width = 20): string {
  const filled = Math.min(1, Math.max(0, share)) * width * 8
  const size = share > 0 ? Math.max(1, Math.round(filled)) : 0
  return '█'.repeat(Math.floor(size / 8)) + eighths[size % 8]
}

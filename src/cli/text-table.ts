/** Tables of text for a terminal. */

const maxCellLength = 40

/** Header and rows in columns, two spaces apart; cells longer than `maxLength` are cut. */
export function renderTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  maxLength = maxCellLength,
): string {
  const cells = [header, ...rows.map((row) => row.map((cell) => shorten(cell, maxLength)))]
  const widths = header.map((_, column) =>
    Math.max(...cells.map((row) => [...(row[column] ?? '')].length)),
  )
  return cells
    .map((row) =>
      row
        .map((text, column) => text + ' '.repeat((widths[column] ?? 0) - [...text].length))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/**
 * Removes characters that would move a terminal's cursor, change its colours or reverse its text.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '\u{fffd}')
}

function shorten(text: string, maxLength: number): string {
  const characters = [...printable(text)]
  if (characters.length <= maxLength) return characters.join('')
  return `${characters.slice(0, maxLength - 1).join('')}…`
}

/** `1 model`, `2,000 models`. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
}

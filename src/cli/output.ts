/** The output of commands: text and tables for a terminal, JSON for programs. */

const maxCellLength = 40

/** Header and rows in columns, two spaces apart; cells longer than `maxLength` are cut. */
export function renderTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  maxLength = maxCellLength,
): string {
  const cells = [header, ...rows.map((row) => row.map((cell) => shorten(cell, maxLength)))]
  const widths = header.map((_, column) =>
    // A hundred thousand rows as arguments of Math.max would exceed the stack.
    cells.reduce((most, row) => Math.max(most, [...(row[column] ?? '')].length), 0),
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

/** The cells of a row by the heads of their columns. */
export type Cells = Readonly<Record<string, string>>

/** A table without the columns that are empty in all rows; empty without rows. */
export function renderCells(rows: readonly Cells[], maxLength?: number): string {
  const header = Object.keys(rows[0] ?? {}).filter((name) => rows.some((row) => row[name] !== ''))
  const cells = rows.map((row) => header.map((name) => row[name] ?? ''))
  return renderTable(header, cells, maxLength)
}

const eighths = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']
const barLength = 20

/** A share between 0 and 1 as a bar; any share above 0 is visible. */
export function renderBar(share: number): string {
  const filled = Math.min(1, Math.max(0, share)) * barLength * 8
  const size = share > 0 ? Math.max(1, Math.round(filled)) : 0
  return '█'.repeat(Math.floor(size / 8)) + eighths[size % 8]
}

/** Removes characters that would move a terminal's cursor, change its colours or reverse its text. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '\u{fffd}')
}

/** The same for a text of several lines. */
export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n')

function shorten(text: string, maxLength: number): string {
  const characters = [...printable(text)]
  if (characters.length <= maxLength) return characters.join('')
  return `${characters.slice(0, maxLength - 1).join('')}…`
}

/** `1 model`, `2,000 models`. */
export function formatCount(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
}

/**
 * The output of --json. Characters that would act on a terminal or reverse its text are escaped, of which JSON itself
 * escapes only some; a parser restores them.
 */
export function formatJson(value: object): string {
  return JSON.stringify(value, null, 2).replace(/[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu, escaped)
}

/** By its UTF-16 code units. */
function escaped(character: string): string {
  return Array.from(
    { length: character.length },
    (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')
}

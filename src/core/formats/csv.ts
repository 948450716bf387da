/** Comma-separated values by RFC 4180. */

export type CsvRow = Readonly<Record<string, string | number>>

/** A header and a line for each row; a value that a row lacks is empty. */
export function toCsv(columns: readonly string[], rows: readonly CsvRow[]): string {
  const lines = [columns, ...rows.map((row) => columns.map((column) => toCell(row[column] ?? '')))]
  return lines.map((cells) => `${cells.join(',')}\r\n`).join('')
}

/**
 * A name that a spreadsheet would take for a formula begins with an apostrophe instead: it would be
 * computed where the file is opened.
 */
function toCell(value: string | number): string {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : `${value}`
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Comma-separated values by RFC 4180. */

export type CsvRow = Readonly<Record<string, string | number>>

/** A header and a line for each row; a value that a row lacks is empty. */
export function toCsv(columns: readonly string[], rows: readonly CsvRow[]): string {
  const lines = [columns, ...rows.map((row) => columns.map((column) => toCell(row[column] ?? '')))]
  return lines.map((cells) => `${cells.join(',')}\r\n`).join('')
}

/**
 * Matches text that a spreadsheet may treat as a formula and compute when the file is opened; it gets an apostrophe.
 * Includes full-width signs, and signs after characters that separate cells or lines in other locales and programs.
 */
const formula = /(^|[;\n]|(?<!^)[\t\r])(?= *[=+\-@＝＋－＠])/g

function toCell(value: string | number): string {
  const text = typeof value === 'string' ? withApostrophes(value) : `${value}`
  return /[",;\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function withApostrophes(value: string): string {
  const text = value.replace(formula, "$1'")
  return /^[\t\r]/.test(text) ? `'${text}` : text
}

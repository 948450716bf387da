/** Comma-separated values by RFC 4180. */

export type CsvRow = Readonly<Record<string, string | number>>

/** A header and a line for each row; a value that a row lacks is empty. */
export function toCsv(columns: readonly string[], rows: readonly CsvRow[]): string {
  const lines = [columns, ...rows.map((row) => columns.map((column) => toCell(row[column] ?? '')))]
  return lines.map((cells) => `${cells.join(',')}\r\n`).join('')
}

/**
 * What a spreadsheet may take for a formula, which it would compute where the file is opened, begins with
 * an apostrophe: also in full width, and behind what separates cells or lines in other countries and programs.
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

/** Whether Postgres can store it and UTF-8 encode it: without NUL and lone surrogates. */
export function isPlainText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

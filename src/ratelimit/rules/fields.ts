/**
 * The sums of other gateways in a window, by their names: one string, `3fk2x0qa 120 40mq81zz 7`, because most windows
 * have few names, and a Map of three takes as much memory as all other facts known of a window.
 */

import { type Exact, parseExact, plus } from '../../formats/exact.ts'

export type Fields = ReadonlyMap<string, Exact>

/** Names have no spaces; sums are whole numbers. */
export function formatSums(fields: Fields): string {
  let text = ''
  for (const [name, sum] of fields) text += text === '' ? `${name} ${sum}` : ` ${name} ${sum}`
  return text
}

export function parseSums(text: string): Map<string, Exact> {
  const fields = new Map<string, Exact>()
  if (text === '') return fields
  const parts = text.split(' ')
  for (let i = 0; i + 1 < parts.length; i += 2) {
    fields.set(parts[i] as string, readSum(parts[i + 1] as string))
  }
  return fields
}

/** Text that is not a sum counts as 0. */
function readSum(text: string): Exact {
  const sum = Number(text)
  return Number.isSafeInteger(sum) ? sum : (parseExact(text) ?? 0)
}

/** The highest sum of each name. */
export function highestOf(...all: readonly Fields[]): Map<string, Exact> {
  const most = new Map<string, Exact>()
  for (const fields of all) {
    for (const [name, sum] of fields) if (sum > (most.get(name) ?? 0)) most.set(name, sum)
  }
  return most
}

export function sumOf(fields: Fields): Exact {
  let sum: Exact = 0
  for (const each of fields.values()) sum = plus(sum, each)
  return sum
}

/** The number of names in a text from `formatSums`. */
export function countOf(text: string): number {
  let spaces = 0
  for (let at = text.indexOf(' '); at >= 0; at = text.indexOf(' ', at + 1)) spaces += 1
  return (spaces + 1) >> 1
}

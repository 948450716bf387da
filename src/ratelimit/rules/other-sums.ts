/**
 * The sums of other gateways in a window, by their names: one string, `3fk2x0qa 120 40mq81zz 7`, because most windows
 * have few names, and a Map of three takes as much memory as all other facts known of a window.
 */

import { addExact, type ExactInt, parseExact } from '../../formats/exact.ts'

export type OtherSums = ReadonlyMap<string, ExactInt>

/** Names have no spaces; sums are whole numbers. */
export function formatSums(fields: OtherSums): string {
  let text = ''
  for (const [name, sum] of fields) text += text === '' ? `${name} ${sum}` : ` ${name} ${sum}`
  return text
}

/** Reads a text of `formatSums`; a new map. Never throws. */
export function parseSums(text: string): Map<string, ExactInt> {
  const fields = new Map<string, ExactInt>()
  if (text === '') return fields
  const parts = text.split(' ')
  for (let i = 0; i + 1 < parts.length; i += 2) {
    fields.set(parts[i] as string, readSum(parts[i + 1] as string))
  }
  return fields
}

/** Text that is not a sum counts as 0. */
function readSum(text: string): ExactInt {
  const sum = Number(text)
  return Number.isSafeInteger(sum) ? sum : (parseExact(text) ?? 0)
}

/** The highest sum of each name. */
export function highestSums(...all: readonly OtherSums[]): Map<string, ExactInt> {
  const most = new Map<string, ExactInt>()
  for (const fields of all) {
    for (const [name, sum] of fields) if (sum > (most.get(name) ?? 0)) most.set(name, sum)
  }
  return most
}

/** The sum of all names, at most `maxExactInt`. */
export function totalOf(fields: OtherSums): ExactInt {
  let sum: ExactInt = 0
  for (const each of fields.values()) sum = addExact(sum, each)
  return sum
}

/** The number of names in a text from `formatSums`. */
export function countSums(text: string): number {
  let spaces = 0
  for (let at = text.indexOf(' '); at >= 0; at = text.indexOf(' ', at + 1)) spaces += 1
  return (spaces + 1) >> 1
}

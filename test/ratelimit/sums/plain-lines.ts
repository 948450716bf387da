import { type ExactInt, parseExact } from '../../../src/formats/exact.ts'
import type { ReadLine } from '../../../src/journal/read-line.ts'
import type { LineUse } from '../../../src/ratelimit/rules/sums.ts'

/** Options of a gateway's sums whose lines are numbers: what is counted of each. */
export function plainLines(countedOf: (amount: ExactInt) => readonly LineUse[]) {
  return textLines((text) => countedOf(parseExact(text) ?? 0))
}

/** The same of lines of any text; undefined: it is none. */
export function textLines(countedIn: (text: string) => readonly LineUse[] | undefined) {
  const counted = new WeakMap<ReadLine, readonly LineUse[]>()
  return {
    readText(text: string): ReadLine | undefined {
      const found = countedIn(text)
      if (found === undefined) return undefined
      // Nothing of a line matters here but what it counts.
      const line = { text } as unknown as ReadLine
      counted.set(line, found)
      return line
    },
    countedOf: (line: ReadLine): readonly LineUse[] => counted.get(line) ?? [],
  }
}

/** The text of a line that `textLines` has read. */
export function textOf(line: ReadLine): string {
  return (line as unknown as { readonly text: string }).text
}

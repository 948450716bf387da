import { type ExactInt, parseExact } from '../../../src/formats/exact.ts'
import type { JournalLine } from '../../../src/journal/journal-line.ts'
import type { LineUse } from '../../../src/ratelimit/rules/sums.ts'

/** Options of a gateway's sums whose lines are numbers: what is counted of each. */
export function plainLines(countedOf: (amount: ExactInt) => readonly LineUse[]) {
  return textLines((text) => countedOf(parseExact(text) ?? 0))
}

/** The same of lines of any text; undefined: it is none. */
export function textLines(countedIn: (text: string) => readonly LineUse[] | undefined) {
  const counted = new WeakMap<JournalLine, readonly LineUse[]>()
  return {
    readText(text: string): JournalLine | undefined {
      const found = countedIn(text)
      if (found === undefined) return undefined
      // Nothing of a line matters here but what it counts.
      const line = { text } as unknown as JournalLine
      counted.set(line, found)
      return line
    },
    countedOf: (line: JournalLine): readonly LineUse[] => counted.get(line) ?? [],
  }
}

/** The text of a line that `textLines` has read. */
export function textOf(line: JournalLine): string {
  return (line as unknown as { readonly text: string }).text
}

/** Times whose lines were lost before they were read, between two steps of the ledger. */

import type { UsageGap } from '../store.ts'

/** Maximum number of gaps in one statement; further ones are merged. */
const maxGaps = 100

/** `onGap`: called for each gap. */
export function createGaps(onGap: (gap: UsageGap) => void) {
  let gaps: UsageGap[] = []
  return {
    /** The number of gaps. */
    get size(): number {
      return gaps.length
    },
    add(from: number, to: number): void {
      const gap = { from, to: Math.max(from, to) }
      onGap(gap)
      const last = gaps.at(-1)
      if (last === undefined || gaps.length < maxGaps) gaps.push(gap)
      else {
        const joined = { from: Math.min(last.from, gap.from), to: Math.max(last.to, gap.to) }
        gaps[gaps.length - 1] = joined
      }
    },
    /** Returns the gaps so far, and starts with none. */
    take(): readonly UsageGap[] {
      const taken = gaps
      gaps = []
      return taken
    },
  }
}

/** The servers' time to first byte in their last responses, for a page that shows one figure. */

/** The last `kept` responses; noting one is cheap enough for every request, reading sorts them. */
export function createFirstByteTimes(kept = 1_000) {
  const last = new Float64Array(kept)
  let noted = 0
  return {
    note(ms: number): void {
      last[noted % kept] = ms
      noted += 1
    },
    /** Of how many responses; undefined without one. */
    read() {
      const responses = Math.min(noted, kept)
      if (responses === 0) return undefined
      const sorted = last.slice(0, responses).sort()
      const at = (share: number) => sorted[Math.ceil(share * responses) - 1] as number
      return { responses, medianMs: at(0.5), p95Ms: at(0.95) }
    },
  }
}

/** The CPU cost of a function, compared with that of another one in the same run. */

/** The CPU time of one run must be measurable: the clock of `process.cpuUsage` has microseconds. */
const measuredMicros = 2_000
const rounds = 9

/**
 * The CPU time of one call of `odd`, as a multiple of `plain`'s. The two alternate, and the cheapest round of each
 * counts, because other work on the machine can only add to a round.
 */
export function costRatio(plain: () => unknown, odd: () => unknown): number {
  const cheapest = { plain: Number.POSITIVE_INFINITY, odd: Number.POSITIVE_INFINITY }
  for (let round = 0; round < rounds; round += 1) {
    cheapest.plain = Math.min(cheapest.plain, microsOf(plain))
    cheapest.odd = Math.min(cheapest.odd, microsOf(odd))
  }
  return cheapest.odd / cheapest.plain
}

/** Microseconds of CPU time of one call, averaged over enough calls to be measurable. */
function microsOf(act: () => unknown): number {
  let calls = 0
  let used = 0
  for (const before = process.cpuUsage(); used < measuredMicros; used = since(before)) {
    act()
    calls += 1
  }
  return used / calls
}

function since(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return user + system
}

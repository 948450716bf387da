/** The cost of a function in CPU, compared with the cost of another one in the same run. */

/** CPU of one run must be measurable: the clock of `process.cpuUsage` has microseconds. */
const measuredMicros = 2_000
const rounds = 9

/**
 * How many times the CPU of `plain` one call of `odd` takes. The two take turns, and the cheapest
 * round of each counts, because other work on the machine can only add to a round.
 */
export function costRatio(plain: () => unknown, odd: () => unknown): number {
  const cheapest = { plain: Number.POSITIVE_INFINITY, odd: Number.POSITIVE_INFINITY }
  for (let round = 0; round < rounds; round += 1) {
    cheapest.plain = Math.min(cheapest.plain, microsOf(plain))
    cheapest.odd = Math.min(cheapest.odd, microsOf(odd))
  }
  return cheapest.odd / cheapest.plain
}

/** Microseconds of CPU of one call, from as many calls as take measurable time. */
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

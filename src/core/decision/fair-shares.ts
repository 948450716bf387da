/** Divides room among namespaces so that what one wants takes nothing from the fair share of others. */

/**
 * Everybody gets what they want if it fits. Otherwise those who want little get all of it, and the
 * others the same number each. `wanted` and the shares are whole numbers by namespace.
 */
export function fairShares(
  wanted: ReadonlyMap<string, number>,
  room: number,
): ReadonlyMap<string, number> {
  const shares = new Map<string, number>()
  let left = room
  for (const [namespace, count] of [...wanted].sort(([, a], [, b]) => a - b)) {
    const share = Math.min(count, Math.floor(left / (wanted.size - shares.size)))
    shares.set(namespace, share)
    left -= share
  }
  return shares
}

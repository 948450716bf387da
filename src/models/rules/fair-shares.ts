/** Divides room among namespaces so that what one asks for takes nothing from the fair share of others. */

/**
 * Each demand is met if all fit. Otherwise small ones are met in full, and the
 * others get the same number each. `demand` and the shares are whole numbers by namespace.
 */
export function fairShares(
  demand: ReadonlyMap<string, number>,
  room: number,
): ReadonlyMap<string, number> {
  const shares = new Map<string, number>()
  let left = room
  for (const [namespace, count] of [...demand].sort(([, a], [, b]) => a - b)) {
    const share = Math.min(count, Math.floor(left / (demand.size - shares.size)))
    shares.set(namespace, share)
    left -= share
  }
  return shares
}

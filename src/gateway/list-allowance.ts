/** Bounds the memory of the lists of model servers that are read at the same time: each takes several times its length. */

import type { IncomingMessage } from 'node:http'

/** The bytes that are left for long lists; `listBytes` if none is being read. */
export interface ListAllowance {
  left: number
}

export const listBytes = 16 * 2 ** 20
/** A list is read up to this length even if others use up the allowance. */
const shortBytes = 65_536

/**
 * Runs `read`, which reads the response at once, and counts its bytes as they arrive; gives them back when it has ended.
 * A long response for which nothing is left is broken off.
 */
export async function readListWithin<Result>(
  allowance: ListAllowance = { left: Number.POSITIVE_INFINITY },
  response: IncomingMessage,
  read: () => Promise<Result>,
): Promise<Result> {
  let taken = 0
  let hasEnded = false
  response.on('data', (piece: Uint8Array) => {
    if (hasEnded) return
    taken += piece.byteLength
    allowance.left -= piece.byteLength
    if (allowance.left >= 0 || taken <= shortBytes) return
    response.destroy(new Error('its list is long, and others are being read'))
  })
  try {
    return await read()
  } finally {
    hasEnded = true
    allowance.left += taken
  }
}

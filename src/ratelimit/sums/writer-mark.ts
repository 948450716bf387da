/**
 * Detects that the store has lost data that it had acknowledged: each call of a writer has a number, and a store with a
 * lower number has lost calls.
 */

import { markMs } from './scripts.ts'
import type { WriteReply, WriterMark } from './sum-store.ts'

/** `nonce`: identifies this process, unique; `monotonic`: a clock in milliseconds. */
export function createWriterMark(key: string, nonce: string, monotonic: () => number) {
  let number = 0
  let acknowledged = 0
  let respondedAt = Number.NEGATIVE_INFINITY

  return {
    key,
    /** The mark of the next call. */
    next(): WriterMark {
      number += 1
      return { key, number, nonce, acknowledged }
    },
    /** Forgets the last acknowledged number. */
    forget(): void {
      acknowledged = 0
    },
    /**
     * Determines what happened to the store before the call with this mark. `rival`: another process has written under
     * the gateway's name. `lost`: the store has lost data. `expired`: the mark may have expired in an outage, with
     * nothing lost. Undefined if the store has everything.
     */
    compare(sent: WriterMark, had: WriteReply): 'rival' | 'lost' | 'expired' | undefined {
      const isRival = had.nonce !== nonce
      const isLoss = sent.acknowledged > 0 && (isRival || had.number < sent.acknowledged)
      acknowledged = isLoss ? 0 : sent.number
      const silentMs = monotonic() - respondedAt
      respondedAt = monotonic()
      if (!isLoss) return undefined
      if (isRival && had.nonce !== '') return 'rival'
      return silentMs < markMs ? 'lost' : 'expired'
    },
  }
}

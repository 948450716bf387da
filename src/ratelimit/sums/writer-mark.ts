/**
 * Detects that the store has lost something that it had acknowledged: each call of a writer has a number, and a store
 * with a lower one has lost some.
 */

import { markMs } from './scripts.ts'
import type { Mark, Written } from './sum-store.ts'

/** `nonce`: identifies this process, unique; `monotonic`: a clock in milliseconds. */
export function createWriterMark(key: string, nonce: string, monotonic: () => number) {
  let number = 0
  let acknowledged = 0
  let answeredAt = Number.NEGATIVE_INFINITY

  return {
    key,
    /** The mark of the next call. */
    next(): Mark {
      number += 1
      return { key, number, nonce, acknowledged }
    },
    /** Forgets what is known of the store. */
    forget(): void {
      acknowledged = 0
    },
    /**
     * What has happened to the store before the call with this mark. `rival`: another process has written under the
     * gateway's name. `lost`: it has lost something. `expired`: the mark may have expired in an outage, with nothing
     * lost. undefined: it has everything.
     */
    compare(sent: Mark, had: Written): 'rival' | 'lost' | 'expired' | undefined {
      const isRival = had.nonce !== nonce
      const isLoss = sent.acknowledged > 0 && (isRival || had.number < sent.acknowledged)
      acknowledged = isLoss ? 0 : sent.number
      const silentMs = monotonic() - answeredAt
      answeredAt = monotonic()
      if (!isLoss) return undefined
      if (isRival && had.nonce !== '') return 'rival'
      return silentMs < markMs ? 'lost' : 'expired'
    },
  }
}

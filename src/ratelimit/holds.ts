/**
 * Holds: the use that requests in progress are expected to add to limits, beside the counters of past use. Only
 * counters determine charges; a hold reserves room until its response is counted. One rule covers tokens, requests and
 * concurrency: used + held + asked <= limit. A request in progress holds one unit of each limit on requests until its
 * line counts one there, and one of each limit on concurrency until it ends.
 */

import type { Counter } from './rules/counter.ts'
import type { Growth } from './rules/estimates/log-histogram.ts'
import type { Hold, HoldResult } from './rules/hold.ts'

/**
 * Idempotent: a hold changes the sums once when it is taken and once when it ends, however often and in whatever order
 * it is taken, released and expires. A refused request changes nothing.
 */
export interface HoldStore {
  /** Whether a shared store responds with errors. */
  readonly isRefused?: boolean
  /**
   * Decides, and holds in all limits or in none. After a refusal ask again under another name of the asker, because a
   * partial grant may still be on its way back. Returns without a promise if nothing must be fetched; rejects if the
   * store does not respond, or refuses. `now`, in milliseconds since the epoch, selects the windows; leases end by a
   * monotonic clock or, in a shared store, by its own.
   */
  hold(asked: Hold, now: number): HoldResult | Promise<HoldResult>
  /** Decides and holds in this process alone, while a shared store does not respond. */
  holdAlone?(asked: Hold, now: number): HoldResult | Promise<HoldResult>
  /** The partitions of a shared store that decide a hold. In a Cluster each may be away alone. */
  partitionsOf?(asked: Hold): readonly string[]
  /** The partition whose failure `hold` has rejected with. */
  failedPartition?(error: unknown): string | undefined
  /** Ends a hold whose response is in the counters. Any process may call it, even for a request without a hold. */
  release(counters: readonly Counter[], id: string): void
  /**
   * Releases a grant whose response the gateway did not read. The hold ends unless another asker has asked for it: a
   * gateway that waits too long asks again, and reads only one of the two responses.
   */
  undo(counters: readonly Counter[], id: string, asker: string): void
  /**
   * Extends the hold of a request in progress: its lease lasts `leaseMs` from now, and it grows to the currently
   * expected output, at most to its ceiling. Has no effect without a hold, or if the store does not respond.
   */
  renew(counters: readonly Counter[], id: string, output: Growth): void
}

/**
 * A store that gateways share: for each window the sum of each gateway, and `+`, the total. A sum only grows, so writes
 * may be repeated, delayed and reordered.
 */

import type { ExactInt } from '../../formats/exact.ts'
import type { OtherSums } from '../rules/other-sums.ts'

/** One sum, written if it is higher than the stored one. */
export interface SumEntry {
  readonly key: string
  /** The gateway's name. */
  readonly field: string
  readonly sum: ExactInt
  /** The remaining life of the window. */
  readonly ttlMs: number
}

/** The number of a writer's last call: a store with a lower one has lost data. */
export interface WriterMark {
  readonly key: string
  readonly number: number
  /** The process that writes. */
  readonly nonce: string
  /** The number that the call relies on: the last acknowledged one, or 0 if there is none. */
  readonly acknowledged: number
}

export interface WriteReply {
  /** The previous mark; 0 and empty if there was none. */
  readonly number: number
  readonly nonce: string
  /** For each entry the current field and total. */
  readonly sums: readonly (readonly [field: ExactInt, total: ExactInt])[]
}

export interface SumStore {
  /**
   * Writes sums. Without a mark the stored one stays. All keys have the same hash tag. `ended`: holds of requests whose
   * responses are in these sums; they end in the same transaction, so that no reader sees a request twice, or not at
   * all. Rejects without a usable response.
   */
  write(
    mark: WriterMark | undefined,
    entries: readonly SumEntry[],
    ended?: readonly EndedHolds[],
  ): Promise<WriteReply>
  /** All fields of these windows, with the total as `+`; none of a missing window. */
  read(keys: readonly string[]): Promise<readonly OtherSums[]>
  /**
   * The use that a version before per-gateway sums had counted, which counts in these windows from now on; all windows
   * have the same hash tag.
   */
  readOld?(windows: readonly OldWindow[]): Promise<readonly number[]>
}

/** A window, and its counter. */
export interface OldWindow {
  readonly counter: string
  readonly id: string
}

/** The name under which every gateway writes the use that a version before per-gateway sums had counted. */
export const oldField = 'old'

/** Ended holds of one user of a subscription. */
export interface EndedHolds {
  /** The keys of their sums, of the holds, and of their leases. */
  readonly keys: readonly string[]
  readonly ids: readonly string[]
}

/** The name of the total of a window, beside the fields that it adds up. */
export const totalField = '+'

/** Maximum number of sums in one call: a script blocks Redis while it runs. */
export const maxSumsPerCall = 512

/** A second store for the sums of long windows, which outlives both the first one and gateways that have ended. */
export interface LongSums {
  /** The sums of all gateways in these windows. */
  load(ids: readonly string[]): Promise<readonly OtherSums[]>
  /** Stores each sum that is higher than the stored one. */
  save(gateway: string, sums: readonly LongSum[]): Promise<void>
}

interface LongSum {
  readonly id: string
  readonly end: number
  readonly used: ExactInt
}

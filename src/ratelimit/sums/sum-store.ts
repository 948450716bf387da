/**
 * What a store that gateways share holds: for each window the sum of each gateway, and `+`, the total. A
 * sum only grows, so writing may be repeated, delayed and overtaken.
 */

import type { Exact } from '../../formats/exact.ts'
import type { Fields } from '../rules/fields.ts'

/** One sum, to be written if it is higher than what is there. */
export interface SumEntry {
  readonly key: string
  /** The gateway's name. */
  readonly field: string
  readonly sum: Exact
  /** The rest of the window's life. */
  readonly ttlMs: number
}

/** The number of a writer's last call: a store that has a lower one has lost something. */
export interface Mark {
  readonly key: string
  readonly number: number
  /** The process that writes. */
  readonly nonce: string
  /** The number that the call relies on: the last one that was answered; 0: on none. */
  readonly acknowledged: number
}

export interface Written {
  /** The mark that was there before; 0 and empty if none was. */
  readonly number: number
  readonly nonce: string
  /** For each entry the field and the total, as they are now. */
  readonly sums: readonly (readonly [field: Exact, total: Exact])[]
}

export interface SumStore {
  /**
   * Without a mark it leaves that alone. All keys have the same hash tag. With `ended`, holds of requests whose
   * responses are in these sums, in the same step: nobody sees a request twice, or not at all. Rejects without a usable answer.
   */
  write(
    mark: Mark | undefined,
    entries: readonly SumEntry[],
    ended?: readonly EndedHolds[],
  ): Promise<Written>
  /** All fields of these windows, with the total as `+`; none of one that is not there. */
  read(keys: readonly string[]): Promise<readonly Fields[]>
  /** What a version before sums by gateway had counted, and counts in these windows from now on; all of one hash tag. */
  readOld?(windows: readonly OldWindow[]): Promise<readonly number[]>
}

/** A window, and the counter that it is of. */
export interface OldWindow {
  readonly counter: string
  readonly id: string
}

/** The name under which everybody writes what a version before sums by gateway had counted. */
export const oldField = 'old'

/** Holds that end, of one user of a subscription. */
export interface EndedHolds {
  /** Where they are: their sums, themselves, their leases. */
  readonly keys: readonly string[]
  readonly ids: readonly string[]
}

/** The total of a window, beside the fields of which it is the sum. */
export const totalField = '+'

/** The most sums of one call: a script blocks Redis while it runs. */
export const maxEntries = 512

/** A second place for the sums of long windows, which outlives both the store and gateways that have ended. */
export interface LongSums {
  /** The sums of all gateways in these windows. */
  load(ids: readonly string[]): Promise<readonly Fields[]>
  /** Keeps the higher one of what is there and this. */
  save(gateway: string, sums: readonly LongSum[]): Promise<void>
}

interface LongSum {
  readonly id: string
  readonly end: number
  readonly used: Exact
}

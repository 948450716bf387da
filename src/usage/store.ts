/** The usage ledger: sums of usage by hour, fed by the usage journal exactly once. */

import type { ExactInt } from '../formats/exact.ts'
import type { Labels } from '../formats/labels.ts'
import type { TimeRange } from '../formats/time-range.ts'

/** The group of a sum. Names are at most `maxNameLength` long (formats/bounded-text.ts). */
export interface UsageGroup {
  /** Start of the hour in which the responses ended, in milliseconds since the epoch. */
  readonly hour: number
  readonly user: string
  readonly subscription: string
  /** `<namespace>/<name>`. */
  readonly model: string
  /** Empty for an identity token, or if unknown. */
  readonly keyId: string
  /** See models/rules/payer.ts; empty if the subscription names none. */
  readonly payer: string
}

/** The summed figures, each with its column in the ledger. */
export const usageFigures = {
  answers: 'answers',
  input: 'input_tokens',
  output: 'output_tokens',
  /** Part of the input. */
  cached: 'cached_tokens',
  /** Part of the output. */
  reasoning: 'reasoning_tokens',
  /** The charge. */
  total: 'total_tokens',
  /** Part of the total that is an estimate. */
  estimated: 'estimated_tokens',
  /**
   * Parts of the total (rules/amounts.ts), of which the rest is output: input neither cached nor written to a cache,
   * cached, written.
   */
  pricedInput: 'priced_input_tokens',
  pricedCached: 'priced_cached_tokens',
  cacheWrite: 'cache_write_tokens',
  /** The difference between weighted and plain tokens, for limits; may be negative. */
  weight: 'weight_tokens',
} as const

/** Sums of responses; tokens are whole numbers up to 2^53 - 1. */
export type UsageSums = Record<keyof typeof usageFigures, number>

export interface UsageRow extends UsageGroup, UsageSums {
  /** `Usage.prices`, which is part of the group; empty if there are none, or only the payer's rate. */
  readonly prices: string
  /** The charge in nano-units, or null without prices. */
  readonly cost: ExactInt | null
}

/** The charge of one window of a limit by name. */
export interface LimitGroup {
  /** A Subscription's name, `ModelRef/<namespace>/<name>`, `Tenant`, or `key/<id>`. */
  readonly resource: string
  readonly name: string
  readonly kind: string
  readonly per: string
  /** A user, group, Subscription or organization; empty if the resource's use is counted together. */
  readonly whom: string
  /** As in lines (ratelimit/rules/windows.ts). */
  readonly window: string
  /** When the window began, in milliseconds since the epoch; if it is shorter than an hour, when that hour began. */
  readonly begin: number
}

export interface LimitRow extends LimitGroup {
  /** Tokens, requests, or nano-units. */
  readonly amount: ExactInt
  /** Times of the first and the last charge. */
  readonly first: number
  readonly last: number
}

/** A row that `tollgate demo` has generated. */
export interface DemoUsage extends UsageRow {
  readonly refusals: number
}

/** A period from which lines of a journal were lost. */
export type UsageGap = TimeRange

/** How far one file of a journal has been added to the ledger. */
export interface LedgerPlace {
  /** The file's fingerprint: a digest of its first line, which a move or rename does not change. */
  readonly head: string
  /** In bytes; at the end of a line. */
  readonly offset: number
  /** End of the last response that was read, in milliseconds since the epoch, or null if none was. */
  readonly endedAt: number | null
  /** Whether the file is complete and was read to its end, or is missing and its unread lines are recorded as a gap. */
  readonly done: boolean
}

export interface LedgerPosition {
  readonly revision: number
  readonly places: readonly LedgerPlace[]
}

/** One step of a journal's reader. */
interface LedgerFeed {
  readonly journal: string
  readonly revision: number
  readonly places: readonly LedgerPlace[]
  readonly rows: readonly UsageRow[]
  /** Undefined if no limit was charged. */
  readonly limits?: readonly LimitRow[]
  readonly gaps: readonly UsageGap[]
  /** Whether this is the reader's last step. */
  readonly closes: boolean
}

export interface UsageLedger {
  /** The position of a journal, which is created if it is unknown. */
  open(journal: string): Promise<LedgerPosition>
  /**
   * Adds the rows and moves the position in one statement; false if another reader has moved it since `revision`. After
   * an error the step may or may not have been made; `open` returns the position.
   */
  feed(step: LedgerFeed): Promise<boolean>
  /** Adds refusals for spent limits. Not idempotent: a repeated call adds twice. */
  addRefusals(refusals: readonly (UsageGroup & { readonly refusals: number })[]): Promise<void>
}

/** The dimensions by which usage can be grouped, in the order of a page's columns. */
export const usageDimensions = [
  'subscription',
  'model',
  'user',
  'key',
  'organization',
  'cost_center',
] as const

export type UsageDimension = (typeof usageDimensions)[number]

/** Also a label of the key, the rate per token (a decimal number), and the prices; each is empty if there is none. */
export type UsageColumn = UsageDimension | 'label' | 'rate' | 'prices'

/** Days and months are in UTC. */
export const usageUnits = ['hour', 'day', 'month'] as const

export type UsageUnit = (typeof usageUnits)[number]

/** Whole hours. */
export interface UsageQuery extends TimeRange {
  /** Undefined if the whole time is one group. */
  readonly unit: UsageUnit | undefined
  /** Empty only with a unit. */
  readonly by: readonly UsageColumn[]
  /** Only usage with all of these values. */
  readonly only: Readonly<Partial<Record<UsageDimension, string>>>
  /** The name of the label that `by` groups by. */
  readonly label?: string | undefined
  /** Only keys that have all of these labels now. */
  readonly labels?: Labels | undefined
  /** Leaves out usage that `tollgate demo` has generated. */
  readonly onlyReal?: boolean
  /** The group after which the page begins: its start, if there is a unit, then its dimensions. */
  readonly after: readonly (string | number)[] | undefined
  readonly limit: number
}

export interface UsageTotal extends UsageSums {
  /** Milliseconds since the epoch, or undefined if the query has no unit. */
  readonly start: number | undefined
  /** The values of the dimensions that were asked for, in their order. */
  readonly group: readonly string[]
  /** Approximate. */
  readonly refusals: number
  /** The charge, or tokens times their rates, as a decimal number; null if there was no price. */
  readonly cost: string | null
}

/** A gap in a ledger; `to` is null while its end is unknown. */
export interface NamedGap {
  readonly journal: string
  readonly from: number
  readonly to: number | null
}

export interface UsageReader {
  /** Groups in order. Throws `usage_timeout` if it takes too long. */
  read(query: UsageQuery): Promise<readonly UsageTotal[]>
  /** The gaps in this time, at most a hundred, oldest first. */
  gaps(from: number, to: number): Promise<readonly NamedGap[]>
}

/** The sums of one hour, in the groups in which they are compared with journals. */
export interface VerifiedSums
  extends UsageSums,
    Pick<UsageGroup, 'hour' | 'user' | 'keyId' | 'model'> {
  /** The charge in nano-units. */
  readonly cost: ExactInt
}

/** A ledger at one moment: its sums of a period, and the part of each journal that they include. */
export interface LedgerState {
  readonly rows: readonly VerifiedSums[]
  /** The limits that were charged in that period, with their whole amounts. */
  readonly limits: readonly LimitRow[]
  readonly journals: readonly {
    readonly journal: string
    readonly places: readonly LedgerPlace[]
    /** When the journal was last read, in milliseconds since the epoch. */
    readonly seenAt: number
  }[]
  readonly gaps: readonly NamedGap[]
  /** The last archive of each journal that has archives. */
  readonly archives: readonly (Pick<ArchiveHead, 'piece' | 'hash'> & { readonly journal: string })[]
}

/** A ledger at one moment, with sums by hour, user, subscription and model, for a simulation. */
export interface PastSums extends Omit<LedgerState, 'rows' | 'limits'> {
  readonly rows: readonly (Pick<UsageGroup, 'hour' | 'user' | 'subscription' | 'model'> &
    Pick<UsageSums, 'answers' | 'total'> & { readonly refusals: number })[]
}

/** The last archive of a journal; its number is 0 and its hash empty if there is none. */
export interface ArchiveHead {
  readonly piece: number
  /** SHA-256 of its content, in hexadecimal. */
  readonly hash: string
  /** Archived bytes of each file, by its head. */
  readonly places: readonly Pick<LedgerPlace, 'head' | 'offset'>[]
}

export interface ArchiveHeads {
  /** The head of a journal, which is created if it is unknown. */
  open(journal: string): Promise<ArchiveHead>
  /** Makes the next archive the last one; false if another process has done so. */
  move(journal: string, next: ArchiveHead): Promise<boolean>
}

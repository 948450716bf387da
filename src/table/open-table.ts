/**
 * A table that this process has open, with its contents. If a method throws, a write failed and scripts may read
 * anything: abandon the files.
 */

import type { Grant } from '../decide/decision.ts'
import type { Dialect } from '../operations/dialect.ts'
import type { Counter } from '../ratelimit/rules/counter.ts'
import type { LineUse } from '../ratelimit/rules/sums.ts'
import { createBlockIndex } from './block-index.ts'
import { type CountedLine, createTableBlocks, type ReadWindow } from './blocks.ts'
import type { TableClocks } from './clocks.ts'
import type { TableFiles } from './files.ts'
import { recordDigest, type TableSizes } from './rules/format.ts'
import { type HitPlan, hitPlanOf } from './rules/hit-plan.ts'
import { blocksOf } from './rules/lane.ts'
import type { MissRule, UnpublishedReason } from './rules/miss-rules.ts'
import { createRecordSlots } from './slots.ts'
import { createTemplateNumbers } from './templates.ts'

/** A granted request. */
export interface GrantedRequest {
  /** Includes the states of its limits. */
  readonly grant: Grant
  /** The key's hash, as in the key cache. */
  readonly keyHash: string
  /** The request's only credential (`credentialOf`). */
  readonly credential: string
  /** `:path` as the gateway has normalized it, with its query. */
  readonly path: string
  /** The model in the body, or undefined if the path names the model. */
  readonly bodyModel: string | undefined
  readonly dialect: Dialect
  /** When it was decided, in milliseconds since the epoch. */
  readonly now: number
  /** The table's mark, read before the credential was looked up. */
  readonly mark: number
  /** When the key expires, in milliseconds since the epoch, or undefined if never. */
  readonly endsAt?: number | undefined
  /** Why it may not be published (table/rules/miss-rules.ts), or undefined if it may. */
  readonly rule?: MissRule | undefined
  /** The charge for each byte of a request if the model reports less, or undefined if there is none. */
  readonly estimate?: PublishedEstimate | undefined
}

export interface PublishedEstimate {
  readonly inputPerByte: number
  /** 0 if the operation has no output. */
  readonly bytesPerToken: number
}

export interface OpenTableOptions {
  readonly files: TableFiles
  /** The random number that identifies the files. */
  readonly file: number
  /** Maximum number of records. */
  readonly records: number
  readonly clocks: TableClocks
  readonly readWindow: (counter: Counter, at: number) => ReadWindow
  /** Whether a request with this digest came before (repeat-detector.ts), so that it is worth a record. */
  readonly isRepeated: (digest: Buffer) => boolean
  /** How long a block must exist before a record refers to it, in milliseconds. */
  readonly settledMs: number
  /** Called with the number of records that were written, withdrawn, or not written for lack of room. */
  readonly count: (what: 'published' | 'withdrawn' | 'unplaced', records: number) => void
}

interface PlannedRecord extends HitPlan {
  readonly digest: Buffer
}

/** How long scripts may decide by the table after each beat, in milliseconds. */
export const tableLeaseMs = 1_000
/** Twice the 5 ms for which a script caches the head. */
export const headKeptMs = 10
/** Life of a record, and the share by which it is shortened at random, so that not all records end at once. */
const recordMs = 30_000
const jitter = 0.2
/** If the difference of the clocks changes by more than this between two beats, a clock was set. */
const stepMs = 100
/** To withdraw more records than this, all are withdrawn at once. */
const mostSingly = 500
/** Slots that a beat searches for expired records. */
const sweptSlots = 2_048

export type OpenTable = ReturnType<typeof createOpenTable>

export function createOpenTable(options: OpenTableOptions) {
  const { files, file, records, clocks, readWindow, isRepeated, settledMs, count } = options
  const sizes: TableSizes = files.sizes
  const slots = createRecordSlots(sizes.buckets, records)
  const blocks = createTableBlocks({
    file,
    most: sizes.blocks,
    names: createBlockIndex({
      buckets: sizes.buckets,
      write: files.writeName,
      clear: files.clearName,
    }),
    clocks,
    readWindow,
    write: files.writeBlock,
    clear: files.clearBlock,
  })
  const templates = createTemplateNumbers(sizes.templates, files.writeTemplate)
  let generation = 1
  /** End of the lease (CLOCK_BOOTTIME); 0 if scripts ask for every request. */
  let leaseUntil = 0
  /** The latest end of the lease that scripts may have read. */
  let readableUntil = 0
  let renewedAt: number | undefined
  let clock = clocks.real() - clocks.boot()

  function writeHead(): void {
    readableUntil = Math.max(readableUntil, leaseUntil)
    files.writeHead({ ...sizes, generation, file, lease: leaseUntil, clock })
    readableUntil = leaseUntil
  }

  /** Returns the record to publish, or why there is none. */
  function planRecord({
    grant,
    credential,
    path,
    bodyModel = '',
    dialect,
  }: GrantedRequest): PlannedRecord | UnpublishedReason {
    const digest = recordDigest(credential, path, bodyModel)
    if (!isRepeated(digest)) return 'first'
    const plan = hitPlanOf(grant, dialect)
    return plan === undefined ? 'too_long' : { ...plan, digest }
  }

  /** Returns whether there was room. */
  function publish(
    { grant, keyHash, endsAt = Infinity, estimate }: GrantedRequest,
    { digest, record: text, ...plan }: PlannedRecord,
    blocks: readonly number[],
  ): boolean {
    if (grant.held?.estimate !== undefined && estimate === undefined) return false
    const template = templates.numberOf(plan.template)
    if (template === undefined) return false
    const now = clocks.boot()
    const until = now + recordMs * (1 - jitter * Math.random())
    const slot = slots.place(digest, keyHash, now, until)
    if (slot === undefined) return false
    const { inputPerByte, bytesPerToken } = estimate ?? { inputPerByte: 0, bytesPerToken: 0 }
    files.writeRecord(slot, {
      digest,
      generation,
      template,
      blocks,
      until,
      endsAt,
      inputPerByte,
      bytesPerToken,
      text,
    })
    return true
  }

  /** Ends all records once scripts have read the head again; until then each can still be withdrawn. */
  function beginGeneration(): void {
    generation = (generation + 1) >>> 0
    count('withdrawn', slots.endAll(clocks.boot() + headKeptMs))
    writeHead()
  }

  function clear(slot: number): void {
    files.clearRecord(slot)
    slots.remove(slot)
    count('withdrawn', 1)
  }

  function withdrawAll(): void {
    count('withdrawn', slots.size)
    files.clearRecords()
    slots.clear()
  }

  return {
    get isResting(): boolean {
      return leaseUntil === 0
    },
    /** How long scripts may still decide by the table; negative if they may not. */
    get leaseLeftMs(): number {
      return readableUntil - clocks.boot()
    },
    /** Whether another table is needed, because numbers of blocks or templates are used up. */
    get isUsedUp(): boolean {
      return blocks.size >= sizes.blocks || templates.size >= sizes.templates
    },
    get figures() {
      const leaseAgeMs = renewedAt === undefined ? undefined : clocks.boot() - renewedAt
      const used = { records: slots.size, blocks: blocks.size, templates: templates.size }
      return { used, leaseAgeMs, bytes: files.bytes }
    },
    /** Whether its files are where scripts look for them, and complete. */
    isInPlace: files.isInPlace,
    /**
     * Publishes a grant if that is allowed and worthwhile. Returns why the next such request will be a miss, or
     * undefined if it may be a hit.
     */
    admit(asked: GrantedRequest): UnpublishedReason | undefined {
      if (leaseUntil === 0) return undefined
      const planned = planRecord(asked)
      const own = blocksOf(asked.grant)
      if (planned === 'first') for (const counters of own) blocks.prepare(counters)
      if (typeof planned !== 'object') return planned
      const placed = own.map(blocks.place)
      const found = placed.filter((block) => block !== undefined)
      const now = clocks.boot()
      // A response that did not find the block yet is counted by its line, which this Check may not have read.
      if (found.some(({ namedAt }) => now - namedAt < settledMs)) return undefined
      const numbers = found.map(({ number }) => number)
      const isPlaced = found.length === placed.length && publish(asked, planned, numbers)
      count(isPlaced ? 'published' : 'unplaced', 1)
      return undefined
    },
    beginGeneration,
    /** When this returns, no record of these keys is in force. */
    withdraw(keyHashes: readonly string[]): void {
      const found = keyHashes.flatMap((hash) => [...slots.ofKey(hash)])
      if (found.length > mostSingly) withdrawAll()
      else for (const slot of found) clear(slot)
    },
    /** When this returns, no record is in force. */
    withdrawAll,
    dropCounter: blocks.drop,
    onCounted: (line: CountedLine, counted: readonly LineUse[]): void =>
      blocks.onCounted(line, counted),
    /**
     * Returns whether a clock was set since the last call, so that scripts may use windows that are no longer current.
     */
    noteClocks(): boolean {
      const before = clock
      clock = clocks.real() - clocks.boot()
      return Math.abs(clock - before) > stepMs
    },
    /** Lets scripts decide by it for this long (ms), at most `tableLeaseMs`. */
    renew(ms: number): void {
      const now = clocks.boot()
      slots.sweep(sweptSlots, now)
      leaseUntil = now + Math.min(tableLeaseMs, ms)
      renewedAt = now
      writeHead()
    },
    /** Makes scripts ask for every request until it is renewed, and ends all records. */
    rest(): void {
      leaseUntil = 0
      renewedAt = undefined
      beginGeneration()
    },
    /** Empties the table, even for scripts that have it open, and a copy in its place. */
    end(): void {
      try {
        files.truncate()
        files.emptyCopy()
      } finally {
        files.close()
      }
    },
  }
}

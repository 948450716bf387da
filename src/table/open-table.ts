/**
 * A table that this process has open, with all that is in it. What throws has failed to write: nobody knows then
 * what scripts read, and the files are to be left.
 */

import type { Grant } from '../decide/decision.ts'
import type { Dialect } from '../operations/dialect.ts'
import type { Counter } from '../ratelimit/rules/counter.ts'
import type { Counted } from '../ratelimit/rules/sums.ts'
import { type CountedLine, createBlocks, type ReadWindow } from './blocks.ts'
import type { TableClocks } from './clocks.ts'
import type { TableFiles } from './files.ts'
import { createNames } from './names.ts'
import { recordDigest, type TableSizes } from './rules/format.ts'
import { blocksOf } from './rules/lane.ts'
import { type Plan, planOf } from './rules/plan.ts'
import type { MissRule, Unpublished } from './rules/rules.ts'
import { createSlots } from './slots.ts'
import { createTemplateNumbers } from './templates.ts'

/** An allowed request. */
export interface Admitted {
  /** With the states of its limits. */
  readonly grant: Grant
  /** As the key cache has it. */
  readonly keyHash: string
  /** The only one of the request (`credentialOf`). */
  readonly credential: string
  /** `:path` as the gateway has normalized it, with its query. */
  readonly path: string
  /** Of the body; undefined where the path names the model. */
  readonly bodyModel: string | undefined
  readonly dialect: Dialect
  /** When it was decided, in milliseconds since the epoch. */
  readonly now: number
  /** The table's, taken before the credential was looked up. */
  readonly mark: number
  /** When the key ends, in milliseconds since the epoch; undefined: never. */
  readonly endsAt?: number | undefined
  /** Why it is not published (table/rules/rules.ts); undefined: it may be. */
  readonly rule?: MissRule | undefined
  /** What is charged if the model reports less, for each byte of a request; undefined: nothing. */
  readonly estimate?: PublishedEstimate | undefined
}

export interface PublishedEstimate {
  readonly inputPerByte: number
  /** 0: the operation has no output. */
  readonly bytesPerToken: number
}

export interface OpenTableOptions {
  readonly files: TableFiles
  /** Their number. */
  readonly file: number
  /** The most records; 20,000 by default. */
  readonly records: number
  readonly clocks: TableClocks
  readonly readWindow: (counter: Counter, at: number) => ReadWindow
  /** Whether such a request (its digest) came before (repeats.ts), so that it is worth a record; by default all are. */
  readonly isRepeated: (digest: Buffer) => boolean
  /** How long a block has had its name before anything is published with it, in milliseconds. */
  readonly settledMs: number
  /** Called once for each record that is written, withdrawn, or not written for want of room. */
  readonly count: (what: 'published' | 'withdrawn' | 'unplaced', records: number) => void
}

interface Drawn extends Plan {
  readonly digest: Buffer
}

/** Scripts decide by the table for so long after each beat. */
export const tableLeaseMs = 1_000
/** A script keeps what it has read of the head for 5 ms. */
export const headKeptMs = 10
/** A key in use is reviewed this often, by how much sooner at most, so that not all are at once. */
const recordMs = 30_000
const jitter = 0.2
/** A clock that has moved further between two beats was set. */
const stepMs = 100
/** More records are withdrawn by clearing all. */
const mostSingly = 500
/** Places that a beat looks at for records that are over. */
const sweptSlots = 2_048

export type OpenTable = ReturnType<typeof createOpenTable>

export function createOpenTable(options: OpenTableOptions) {
  const { files, file, records, clocks, readWindow, isRepeated, settledMs, count } = options
  const sizes: TableSizes = files.sizes
  const slots = createSlots(sizes.buckets, records)
  const blocks = createBlocks({
    file,
    most: sizes.blocks,
    names: createNames({
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
  /** CLOCK_BOOTTIME; 0: scripts ask for every request. */
  let leaseUntil = 0
  /** The latest that scripts may have read. */
  let toldUntil = 0
  let renewedAt: number | undefined
  let clock = clocks.real() - clocks.boot()

  function writeHead(): void {
    toldUntil = Math.max(toldUntil, leaseUntil)
    files.writeHead({ ...sizes, generation, file, lease: leaseUntil, clock })
    toldUntil = leaseUntil
  }

  /** What would be published, or why it is not. */
  function draw({
    grant,
    credential,
    path,
    bodyModel = '',
    dialect,
  }: Admitted): Drawn | Unpublished {
    const digest = recordDigest(credential, path, bodyModel)
    if (!isRepeated(digest)) return 'first'
    const plan = planOf(grant, dialect)
    return plan === undefined ? 'too_long' : { ...plan, digest }
  }

  /** Returns whether there is room. */
  function publish(
    { grant, keyHash, endsAt = Infinity, estimate }: Admitted,
    { digest, record: text, ...plan }: Drawn,
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

  /** No record of before is in force once scripts have read the head again; until then each can be withdrawn. */
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
    /** How long scripts may at most decide by it; below 0: not at all. */
    get leaseLeftMs(): number {
      return toldUntil - clocks.boot()
    },
    /** Whether another one is needed: a number is never given away twice. */
    get isUsedUp(): boolean {
      return blocks.size >= sizes.blocks || templates.size >= sizes.templates
    },
    get figures() {
      const leaseAgeMs = renewedAt === undefined ? undefined : clocks.boot() - renewedAt
      const used = { records: slots.size, blocks: blocks.size, templates: templates.size }
      return { used, leaseAgeMs, bytes: files.bytes }
    },
    /** Whether its files are where scripts look for them, and whole. */
    isInPlace: files.isInPlace,
    /**
     * Publishes it, if it may be and is worth it. Returns why it will be asked about again; undefined: the table may
     * decide it the next time.
     */
    admit(asked: Admitted): Unpublished | undefined {
      if (leaseUntil === 0) return undefined
      const drawn = draw(asked)
      const own = blocksOf(asked.grant)
      if (drawn === 'first') for (const counters of own) blocks.prepare(counters)
      if (typeof drawn !== 'object') return drawn
      const placed = own.map(blocks.place)
      const found = placed.filter((block) => block !== undefined)
      const now = clocks.boot()
      // A response that did not find it yet is counted by its line, which this Check may not have read.
      if (found.some(({ namedAt }) => now - namedAt < settledMs)) return undefined
      const numbers = found.map(({ number }) => number)
      const isPlaced = found.length === placed.length && publish(asked, drawn, numbers)
      count(isPlaced ? 'published' : 'unplaced', 1)
      return undefined
    },
    beginGeneration,
    /** Before it returns no record of these keys is in force. */
    withdraw(keyHashes: readonly string[]): void {
      const found = keyHashes.flatMap((hash) => [...slots.ofKey(hash)])
      if (found.length > mostSingly) withdrawAll()
      else for (const slot of found) clear(slot)
    },
    /** Before it returns no record is in force. */
    withdrawAll,
    dropCounter: blocks.drop,
    onCounted: (line: CountedLine, counted: readonly Counted[]): void =>
      blocks.onCounted(line, counted),
    /** Returns whether a clock was set since the last call: windows that scripts have begun may be others now. */
    noteClocks(): boolean {
      const before = clock
      clock = clocks.real() - clocks.boot()
      return Math.abs(clock - before) > stepMs
    },
    /** Scripts decide by it for so many milliseconds, at most `leaseMs`. */
    renew(ms: number): void {
      const now = clocks.boot()
      slots.sweep(sweptSlots, now)
      leaseUntil = now + Math.min(tableLeaseMs, ms)
      renewedAt = now
      writeHead()
    },
    /** Scripts ask for every request, until it is renewed; no record of before is in force then. */
    rest(): void {
      leaseUntil = 0
      renewedAt = undefined
      beginGeneration()
    },
    /** From now on nothing can be read of it, even by scripts that have it open, nor of a copy in its place. */
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

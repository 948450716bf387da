/**
 * A table that this process has open, with all that is in it. What throws has failed to write: nobody knows then
 * what scripts read, and the files are to be left.
 */

import type { Grant } from '../decide/decision.ts'
import { capsOf } from '../keys/rules/compiled-caps.ts'
import type { Dialect } from '../operations/dialect.ts'
import { type Counter, counterOf } from '../ratelimit/rules/counter.ts'
import type { Counted } from '../ratelimit/rules/sums.ts'
import { type CountedLine, createBlocks, type ReadWindow } from './blocks.ts'
import type { TableClocks } from './clocks.ts'
import type { TableFiles } from './files.ts'
import { recordDigest } from './rules/digest.ts'
import type { TableSizes } from './rules/format.ts'
import { writeLanePlace } from './rules/lane.ts'
import { recordText, templateText } from './rules/plan.ts'
import type { MissRule } from './rules/rules.ts'
import { createSlots } from './slots.ts'
import { createTemplates } from './templates.ts'

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
  /** The most records. */
  readonly records: number
  readonly clocks: TableClocks
  readonly readWindow: (counter: Counter, at: number) => ReadWindow
  /** Called once for each record that is written, withdrawn, or not written for want of room. */
  readonly count: (what: 'published' | 'withdrawn' | 'unplaced', records: number) => void
}

/** Scripts decide by the table for so long after each beat. */
export const leaseMs = 1_000
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
  const { files, file, records, clocks, readWindow, count } = options
  const sizes: TableSizes = files.sizes
  const slots = createSlots(sizes.buckets, records)
  const blocks = createBlocks({
    ...{ file, most: sizes.blocks, clocks, readWindow },
    ...{ write: files.writeBlock, clear: files.clearBlock },
  })
  const templates = createTemplates(sizes.templates, files.writeTemplate)
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

  /** Returns whether there is room. */
  function publish(asked: Admitted, blocks: readonly number[]): boolean {
    const { grant, dialect, credential, path, bodyModel = '', keyHash, endsAt = Infinity } = asked
    const { estimate } = asked
    if (grant.held?.estimate !== undefined && estimate === undefined) return false
    const plan = templateText(grant, dialect)
    const text = recordText(grant.caller, capsOf(grant.caller)?.counted)
    const template = plan === undefined ? undefined : templates.numberOf(plan)
    if (template === undefined || text === undefined) return false
    const now = clocks.boot()
    const until = now + recordMs * (1 - jitter * Math.random())
    const digest = recordDigest(credential, path, bodyModel)
    const slot = slots.place(digest, keyHash, now, until)
    if (slot === undefined) return false
    const { inputPerByte, bytesPerToken } = estimate ?? { inputPerByte: 0, bytesPerToken: 0 }
    files.writeRecord(slot, {
      ...{ digest, generation, template, blocks, until, endsAt, inputPerByte, bytesPerToken, text },
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
    /** How long scripts may decide by it, whatever happens; below 0: not at all. */
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
    /** Publishes it, if it may be, and returns where its response adds; undefined: nowhere. */
    admit(asked: Admitted, mayPublish: boolean): string | undefined {
      const isPublished = mayPublish && asked.rule === undefined && leaseUntil > 0
      const own = countersOf(asked.grant)
      const found = own.map(isPublished ? blocks.place : blocks.numberOf)
      const numbers = found.filter((number) => number !== undefined)
      if (isPublished) {
        const isPlaced = numbers.length === own.length && publish(asked, numbers)
        count(isPlaced ? 'published' : 'unplaced', 1)
      }
      return numbers.length === 0 ? undefined : writeLanePlace(file, numbers)
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
      leaseUntil = now + Math.min(leaseMs, ms)
      renewedAt = now
      writeHead()
    },
    /** Scripts ask for every request, until it is renewed; no record of before is in force then. */
    rest(): void {
      leaseUntil = 0
      renewedAt = undefined
      beginGeneration()
    },
    /** Nothing can be read of it from now on, whoever has it open, nor of a copy that is in its place. */
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

/** Those of the user, then those of the key, as far as there are any. */
function countersOf({ limits, caller: { user } }: Grant): readonly (readonly Counter[])[] {
  return (['user', 'key'] as const)
    .map((scope) => limits.filter((each) => each.scope === scope && each.kind === 'tokens'))
    .filter((own) => own.length > 0)
    .map((own) => own.map((limit) => counterOf(limit, user)))
}

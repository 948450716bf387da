/**
 * The decision table of a gateway: what a Check has allowed, in a file that the gateway's script reads, so that it
 * decides the same again by itself. Only the writer of the gateway's files (journal/writers.ts) has one open.
 */

import type { Counted } from '../core/counting/sums.ts'
import type { Counter } from '../core/decision/counter.ts'
import type { Grant } from '../core/decision/decide.ts'
import type { Dialect } from '../core/decision/dialect.ts'
import type { Lane } from '../core/table/lane.ts'
import type { MissRule } from '../core/table/rules.ts'
import type { FileMode } from '../journal/prepare-folder.ts'

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
  /** Why it is not published (core/table/rules.ts); undefined: it may be. */
  readonly rule?: MissRule | undefined
  /** What is charged if the model reports less, for each byte of a request; undefined: nothing. */
  readonly estimate?: PublishedEstimate | undefined
}

export interface PublishedEstimate {
  readonly inputPerByte: number
  /** 0: the operation has no output. */
  readonly bytesPerToken: number
}

/** A line that was counted, as far as the table needs it. */
export interface CountedLine {
  readonly lane?: Lane | undefined
  readonly usage: { readonly response: { readonly endedAt: number } }
}

export interface DecisionTable {
  /** Changes with each withdrawal: what was decided before one is not published after it. Take it before authenticating. */
  readonly mark: number
  /**
   * Called for every allow of a key in the turn of the decision: publishes it if it may, and returns where its
   * response adds (`lane` of Check's metadata), undefined: nowhere. Never throws.
   */
  admit(asked: Admitted): string | undefined
  /** Before this returns no record of these keys (hashes as in the key cache) is in force. */
  withdraw(keyHashes: readonly string[]): void
  /** Before this returns no record is in force. */
  withdrawAll(): void
  /** Resolves when no script decides by a record of before; nothing is published until as many calls of `resume`. */
  suspend(): Promise<void>
  resume(): void
  /** The counter began anew: its block is withdrawn, another number is used next. */
  dropCounter(key: string): void
  /** Each line that this process has counted, once it is in the sums. */
  onCounted(line: CountedLine, counted: readonly Counted[]): void
  /**
   * To be called every 200 ms: renews the lease, looks whether the files are in their place (deleted, replaced,
   * truncated: made anew), opens when this process has become the writer, closes when it is not. Never throws.
   */
  beat(): void
  /** No script decides by it afterwards (within 10 ms). */
  close(): void
  stats(): TableStats
}

export interface Room {
  readonly used: number
  readonly of: number
}

export interface TableStats {
  /** Whether scripts may decide by it. */
  readonly isOpen: boolean
  readonly records: Room
  readonly blocks: Room
  readonly templates: Room
  /** Of both files; 0: there are none. */
  readonly bytes: number
  /** Since the lease was renewed; undefined: there is none. */
  readonly leaseAgeMs: number | undefined
  /** Records since the start: written, withdrawn, and not written for want of room. */
  readonly published: number
  readonly withdrawn: number
  readonly unplaced: number
}

/** A window of a counter: what this gateway and others have used in it, as far as is known. */
export interface ReadWindow {
  readonly used: number
  /** When it began or was last reset, and when it ends: milliseconds since the epoch. */
  readonly start: number
  readonly end: number
  /** How long ago the shared store told of it; 0 without one. */
  readonly ageMs: number
  /** Whether others count in it. */
  readonly isShared: boolean
}

/** For tests; those of the system by default. */
export interface TableClocks {
  /** Milliseconds since the epoch. */
  real(): number
  /** Of CLOCK_BOOTTIME, in milliseconds. */
  boot(): number
}

export interface TableOptions {
  /** Of USAGE_JOURNAL: its folder, and the beginning of its files' names. */
  readonly folder: string
  readonly stem: string
  readonly mode: FileMode
  /** Twice the workers of one Envoy. */
  readonly lanes: number
  /** The most records; 20,000 by default. */
  readonly records?: number
  /** Whether this process is the gateway's writer now. */
  readonly isWriter: () => boolean
  /** Not while draining, in an outage of the key store or of the journal; with `deny` not in one of Redis either. */
  readonly mayServe: () => boolean
  /** Milliseconds until the key cache is not confirmed any more; 0 or less: it is not. */
  readonly keyLeaseLeftMs: () => number
  readonly readWindow: (counter: Counter, at: number) => ReadWindow
  readonly clocks?: TableClocks
  /** What failed; the table is closed then, and opened again when that is possible. */
  readonly onFault: (error: unknown) => void
}

/** Never throws: what is not possible now is tried again at each beat. */
export function openDecisionTable(_options: TableOptions): DecisionTable {
  throw new Error('not there yet')
}

/** A decision table with clocks and counters of the test, and a reader that decides by it as a script does. */

import { join } from 'node:path'
import type { Test } from 'tap'
import type { Grant } from '../../src/decide/decision.ts'
import { parseWindow } from '../../src/formats/time.ts'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { compileCaps } from '../../src/keys/rules/compiled-caps.ts'
import type { KeyCaps } from '../../src/keys/rules/key-caps.ts'
import { toCountedLimits } from '../../src/ratelimit/rules/counted-limits.ts'
import type { Counter } from '../../src/ratelimit/rules/counter.ts'
import { counterOf } from '../../src/ratelimit/rules/counter-cache.ts'
import { limitStates } from '../../src/ratelimit/rules/limit.ts'
import { createWindowSums } from '../../src/ratelimit/rules/sums.ts'
import type { CounterReset } from '../../src/ratelimit/rules/windows.ts'
import type { CountedLine } from '../../src/table/blocks.ts'
import { laneOf } from '../../src/table/rules/lane.ts'
import {
  type GrantedRequest,
  openDecisionTable,
  type ReadWindow,
  type TableOptions,
} from '../../src/table/table.ts'
import { modelRef, snapshotOf } from './documents.ts'
import { openTableReader, type TableReader } from './table-reader.ts'
import { memoryFolder } from './temporary-folder.ts'

export type Rates = readonly (readonly [limit: number, window: string])[]

export const chat = '/llm/small/v1/chat/completions'
const model = snapshotOf(modelRef('small')).models.get('llm/small')
if (model === undefined) throw new Error('no model')

/** Check's grant for a key `sk-<id>` of the user. */
export function grantOf(user: string, rates: Rates, caps?: KeyCaps, id = 'one'): Grant {
  const compiled = compileCaps({ id, user, subscription: 'basic', caps: caps ?? {} })
  const own = toCountedLimits('basic', 'llm/small', rates.map(limitOf))
  const keyLimits = compiled?.limitsOn?.('llm/small', {})
  const limits = [...own, ...(keyLimits?.limits ?? [])]
  return {
    allowed: true,
    caller: {
      ...({ by: 'key', user, groups: [], keyId: id, subscription: 'basic' } as const),
      ...(compiled && { caps: compiled }),
    },
    ...{ model: model as Grant['model'], cluster: 'model/llm/small', subscription: 'basic' },
    limits,
    keyLimits,
    states: limitStates(
      limits,
      limits.map(() => ({ used: 0, resetsAt: 0 })),
      0,
    ),
    ...{ metered: true, uncounted: false, listing: false, owningGroup: undefined },
    ...{ payer: undefined, bodyNames: undefined, sentName: undefined },
    upstreamPath: '/v1/chat/completions',
  }
}

function limitOf([limit, window]: Rates[0]) {
  return { limit, window, windowMs: parseWindow(window) as number }
}

export type TableWorld = Awaited<ReturnType<typeof createTableWorld>>

/** Resolves when scripts may decide. `change`: options of the table, or its folder. */
export async function createTableWorld(
  t: Test,
  { folder = memoryFolder(t), ...change }: Partial<TableOptions> & { folder?: string } = {},
) {
  const now = { real: Date.UTC(2026, 0, 1, 0, 0, 30), boot: 1_000_000 }
  const state = { isWriter: true, mayServe: true, keyLeaseLeftMs: 60_000 }
  /** Usage by other gateways; undefined without a shared store. */
  const others = { used: undefined as number | undefined, ageMs: 0 }
  const resets = new Map<string, readonly CounterReset[]>()
  const sums = createWindowSums(resets, () => now.boot)
  const faults: unknown[] = []

  function readWindow(counter: Counter, at: number): ReadWindow {
    const { sum, since, end } = sums.at(counter, at)
    const isShared = others.used !== undefined
    const ageMs = isShared ? others.ageMs : 0
    return { used: Number(sum) + (others.used ?? 0), start: since, end, ageMs, isShared }
  }

  const table = openDecisionTable({
    paths: journalFilesOf(join(folder, 'usage.jsonl')),
    ...{ mode: 0o600, lanes: () => 4, records: 300, readWindow, settledMs: 0 },
    isWriter: () => state.isWriter,
    mayServe: () => state.mayServe,
    keyLeaseLeftMs: () => state.keyLeaseLeftMs,
    clocks: { real: () => now.real, boot: () => now.boot },
    onFault: (error) => faults.push(error),
    ...change,
  })
  t.teardown(() => table.close())
  let reader: TableReader | undefined
  t.teardown(() => reader?.close())

  const world = {
    ...{ folder, now, state, others, sums, table, faults, readWindow },
    /** The current files. */
    reopen(): TableReader {
      reader?.close()
      reader = openTableReader(folder)
      return reader
    },
    get reader(): TableReader {
      return reader ?? this.reopen()
    },
    /** Advances both clocks, with beats. */
    pass(ms: number): void {
      for (let left = ms; left > 0; left -= 200) {
        now.real += Math.min(200, left)
        now.boot += Math.min(200, left)
        table.beat()
      }
    },
    /** Beats until scripts may decide. */
    async opened(): Promise<void> {
      for (let turns = 0; !table.stats().isOpen && turns < 500; turns += 1) {
        table.beat()
        await new Promise((next) => setImmediate(next))
      }
      t.ok(table.stats().isOpen, 'the table is open')
      world.reopen()
    },
    /** As after Check's grant; returns where its response adds. */
    admit(grant: Grant, change: Partial<GrantedRequest> = {}): string | undefined {
      const keyId = grant.caller.by === 'key' ? grant.caller.keyId : ''
      table.admit({
        ...{ grant, keyHash: `hash-${keyId}`, credential: `sk-${keyId}`, path: chat },
        ...({ bodyModel: undefined, dialect: 'openai' } as const),
        ...{ now: now.real, mark: table.mark, ...change },
      })
      return world.reader.placeOf(laneOf(grant) ?? '')
    },
    decide: (id = 'one', path = chat, name = '') =>
      world.reader.decide([`sk-${id}`, path, name], now),
    /** The usage that a decision finds, or why it asks Check. */
    used(id = 'one') {
      const decided = world.decide(id)
      return typeof decided === 'string' ? decided : decided.used
    },
    /** A response ends: adds to a lane, at the place that its request was given. Returns its line. */
    end(blocks: readonly number[], added: number, lane = 0, startedAt = now.real): CountedLine {
      return {
        ...{ state: 'ended', startedAt },
        lane: added === 0 ? undefined : world.reader.add(blocks, added, now.real, lane),
        usage: { response: { id: 'request', endedAt: now.real } },
      }
    },
    /** The line is read: charges these tokens to these counters. */
    count(line: CountedLine, amount: number, grant: Grant): void {
      const counters = grant.limits.map((limit) => counterOf(limit, grant.caller.user))
      const { endedAt: at } = line.usage.response
      const counted = amount > 0 ? [{ at, amount, counters }] : []
      for (const each of counted) sums.count(each, now.real)
      table.onCounted(line, counted)
    },
    reset(key: string, at: number): void {
      resets.set(key, [...(resets.get(key) ?? []), { at, used: 0 }])
      table.dropCounter(key)
    },
  }
  if (change.isWriter === undefined) await world.opened()
  return world
}

/** The numbers in what `admit` returns. */
export function blocksIn(place: string | undefined): readonly number[] {
  return (place ?? '').split(' ').slice(1).map(Number)
}

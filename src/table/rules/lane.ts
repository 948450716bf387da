/**
 * What the response of a line has added to the lane of its worker (docs/table.md), as the line says it:
 * `<file> <tokens> <block>[ <block>]`. Where it is to add, a Check says by names: only the writer knows the numbers of
 * blocks, and a response may end long after its Check, which any process may have decided.
 */

import { hash } from 'node:crypto'
import type { Grant } from '../../decide/decision.ts'
import { remember } from '../../formats/remember.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { counterOf, countersOf } from '../../ratelimit/rules/counter-cache.ts'

export interface Lane {
  /** Which files the lane and the blocks are in. */
  readonly file: number
  /** Tokens that were added to each of the blocks. */
  readonly added: number
  readonly blocks: readonly number[]
}

/** In doubt nothing (undefined): what was added is then counted twice until its window ends. */
export function readLane(text: unknown): Lane | undefined {
  if (typeof text !== 'string') return undefined
  const [file, added, ...blocks] = /^\d{1,15}(?: \d{1,15}){2,3}$/.test(text)
    ? text.split(' ').map(Number)
    : []
  return file === undefined || added === undefined ? undefined : { file, added, blocks }
}

/** The name of these counters' block, 16 hex digits: the same in each process. */
export function blockName(counters: readonly Counter[]): string {
  return nameOf(counters.map(({ key }) => key).join('\n\n'))
}

const nameOf = remember(10_000, (keys) => hash('sha256', keys, 'hex').slice(0, 16))

/** By the counters of the grant, of which each Check asks this. */
const lanes = new WeakMap<readonly Counter[], string>()

/** Where the response to a grant is to add: the names of its blocks; undefined: it has none. */
export function laneOf(grant: Grant): string | undefined {
  const { limits, caller, pool } = grant
  const counters = countersOf(limits, caller.user, pool)
  const lane = lanes.get(counters) ?? blocksOf(grant).map(blockName).join(' ')
  lanes.set(counters, lane)
  return lane || undefined
}

/** The counters of each block of a grant: those of the user, then those of the key, as far as there are any. */
export function blocksOf({ limits, caller: { user } }: Grant): readonly (readonly Counter[])[] {
  return (['user', 'key'] as const)
    .map((scope) => limits.filter((each) => each.scope === scope && each.kind === 'tokens'))
    .filter((own) => own.length > 0)
    .map((own) => own.map((limit) => counterOf(limit, user)))
}

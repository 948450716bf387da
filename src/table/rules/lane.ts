/**
 * The tokens that a response has added to the lane of its worker (docs/table.md), as its line has them: `<file>
 * <tokens> <block>[ <block>]`. Check tells the script the names of the blocks, not their numbers, which only the writer
 * knows: any process may have decided the request, long before the response ends.
 */

import { hash } from 'node:crypto'
import type { Grant } from '../../decide/decision.ts'
import { memoize } from '../../formats/memoize.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { counterOf, countersOf } from '../../ratelimit/rules/counter-cache.ts'

export interface Lane {
  /** Number of the files that the lane and the blocks are in. */
  readonly file: number
  /** Tokens added to each of the blocks. */
  readonly added: number
  readonly blocks: readonly number[]
}

/** Returns undefined in doubt: the added tokens are then counted twice until their window ends. */
export function parseLane(text: unknown): Lane | undefined {
  if (typeof text !== 'string') return undefined
  const [file, added, ...blocks] = /^\d{1,15}(?: \d{1,15}){2,3}$/.test(text)
    ? text.split(' ').map(Number)
    : []
  return file === undefined || added === undefined ? undefined : { file, added, blocks }
}

/** The name of these counters' block, 16 hex digits; the same in each process. */
export function blockName(counters: readonly Counter[]): string {
  return nameOf(counters.map(({ key }) => key).join('\n\n'))
}

const nameOf = memoize(10_000, (keys) => hash('sha256', keys, 'hex').slice(0, 16))

/** Cached by the counters of the grant, because each Check asks for it. */
const lanes = new WeakMap<readonly Counter[], string>()

/** The names of the blocks to which the response to a grant adds, or undefined if there are none. */
export function laneOf(grant: Grant): string | undefined {
  const { limits, caller, pool } = grant
  const counters = countersOf(limits, caller.user, pool)
  const lane = lanes.get(counters) ?? blocksOf(grant).map(blockName).join(' ')
  lanes.set(counters, lane)
  return lane || undefined
}

/** The counters of each block of a grant: the user's, then the key's, if there are any. */
export function blocksOf({ limits, caller: { user } }: Grant): readonly (readonly Counter[])[] {
  return (['user', 'key'] as const)
    .map((scope) => limits.filter((each) => each.scope === scope && each.kind === 'tokens'))
    .filter((own) => own.length > 0)
    .map((own) => own.map((limit) => counterOf(limit, user)))
}

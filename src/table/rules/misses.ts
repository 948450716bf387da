/** Why a request was not decided by the table, as metrics name it. */

import type { MissRule } from './rules.ts'

/**
 * What the gateway's script says (docs/table.md), of a request that would be in the table if it is allowed, too:
 * `off` and `closed`: of the table; `unknown`: it is not there; `stale`, `limit`, `window` and `fresh`: of what is there;
 * `shape`, `traced` and `clock`: of the request, and the machine.
 */
export const scriptMisses = [
  ...['off', 'closed', 'unknown', 'stale', 'limit', 'window', 'fresh', 'shape', 'traced', 'clock'],
] as const

const known: ReadonlySet<string> = new Set(scriptMisses)

/** Why an allowed request was not published: by which rule, or it was the first of its kind of late. */
export type Unpublished = MissRule | 'first'

/**
 * One of a fixed list: the script's word (`none`: it says nothing, `other`: no known one), and for a request that is
 * not put into the table why it is not. `said`: as a client may have written it.
 */
export function missReason(said: string | undefined, rule: Unpublished | undefined): string {
  if (said === undefined) return 'none'
  if (!known.has(said)) return 'other'
  return said === 'unknown' ? (rule ?? said) : said
}

/** The last refusals of all processes: what both lists of them have in common. */

import type { PastRefusal, Whose } from '../../decide/past-refusal.ts'
import type { ExternalDeps } from '../deps.ts'
import { pageQuery, readPage, type Written } from '../http/page.ts'
import { boolean } from '../http/schema.ts'
import { pastRefusal, showPast } from './explain-view.ts'

type Deps = Pick<ExternalDeps, 'clock' | 'pastRefusals' | 'othersRefusals'>

/** How many. */
export const refusalsQuery = { type: 'object', properties: { limit: pageQuery.limit } } as const

/** The rest of a description that says which refusals are listed. */
export const ofAllProcesses =
  'Each process remembers 100 of each user, and is asked. `POST /v1/explain` with a `requestId` says why, step by step.'

/** The fields of a list. */
export const refusalFields = {
  object: { type: 'string', const: 'list' },
  data: { type: 'array', items: pastRefusal },
  complete: boolean('Whether all processes have answered.'),
} as const

interface RecentRefusals {
  /** The values of `refusalFields`. */
  readonly list: {
    readonly object: 'list'
    readonly data: readonly unknown[]
    readonly complete: boolean
  }
  /** The names of processes that have not answered; undefined: it is not known which there are. */
  readonly silent: readonly string[] | undefined
}

/** Newest first. `whose` undefined: everybody's, with what administrators see of them. */
export async function readRecentRefusals(
  { clock, pastRefusals, othersRefusals }: Deps,
  written: Written,
  whose?: Whose,
): Promise<RecentRefusals> {
  const { limit } = readPage({ limit: written.limit })
  const { refusals: reported, silent } = await othersRefusals.recent(limit, whose)
  const all: PastRefusal[] = [...pastRefusals.recent(limit, clock(), whose), ...reported]
  const newest = all.sort((a, b) => b.at - a.at).slice(0, limit)
  const data = newest.map((past) => showPast(past, whose === undefined))
  return { list: { object: 'list', data, complete: silent?.length === 0 }, silent }
}

/** The last refusals of all processes, newest first. */

import type { PastRefusal, Whose } from '../../core/decision/past-refusal.ts'
import type { ExternalDeps } from '../deps.ts'

type Deps = Pick<ExternalDeps, 'clock' | 'pastRefusals' | 'othersRefusals'>

interface RecentRefusals {
  readonly found: readonly PastRefusal[]
  /** The names of processes that have not answered; undefined: it is not known which there are. */
  readonly silent: readonly string[] | undefined
}

/** `whose` undefined: everybody's, for administrators. */
export async function readRecentRefusals(
  { clock, pastRefusals, othersRefusals }: Deps,
  limit: number,
  whose?: Whose,
): Promise<RecentRefusals> {
  const { refusals: reported, silent } = await othersRefusals.recent(limit, whose)
  const all = [...pastRefusals.recent(limit, clock(), whose), ...reported]
  return { found: all.sort((a, b) => b.at - a.at).slice(0, limit), silent }
}

import type { PeerRefusals, ReportedRefusals } from '../../src/decide/past-refusal.ts'

const nothing: ReportedRefusals = { refusals: [], silent: [] }

/** The refusals of other processes if there is only one process. */
export const noOtherProcess: PeerRefusals = {
  find: async () => nothing,
  recent: async () => nothing,
}

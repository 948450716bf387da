import type { OthersRefusals, ReportedRefusals } from '../../src/decide/past-refusal.ts'

const nothing: ReportedRefusals = { refusals: [], silent: [] }

/** The refusals of other processes if there is only one process. */
export const noOtherProcess: OthersRefusals = {
  find: async () => nothing,
  recent: async () => nothing,
}

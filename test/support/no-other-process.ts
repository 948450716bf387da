import type { OthersRefusals, ToldRefusals } from '../../src/core/decision/past-refusal.ts'

const nothing: ToldRefusals = { refusals: [], silent: [] }

/** The refusals of other processes where there is only one. */
export const noOtherProcess: OthersRefusals = {
  find: async () => nothing,
  recent: async () => nothing,
}

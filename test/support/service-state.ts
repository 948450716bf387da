import type { ServiceState } from '../../src/admin/operation/read-state.ts'

/** The state of a process without problems. */
export const wholeState: ServiceState = {
  replica: 'one',
  version: '1.2.3',
  ready: true,
  degraded: [],
  resources: {
    ...{ models: 1, policies: 2, subscriptions: 3 },
    ...{ problems: 0, waiting_models: 0, age_seconds: 1.5 },
  },
  revocations: { confirmed: 4, pending: 0, log_failing: false },
  uncounted_calls: 0,
  database: { available: true, grace_seconds: 10 },
}

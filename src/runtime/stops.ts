/** The parts of a process that take time to stop, and their shares of a shutdown. */

import type { TimedStop } from './shutdown.ts'

/** Milliseconds that each may always take, and at most; and the loss if it is abandoned. */
const shares = {
  'the audit trail': [200, 2_000, 'its last lines'],
  'the embedded Postgres': [1_300, 14_000, 'no committed data: the next start recovers'],
  'the database connections': [400, 400, 'running statements'],
  'the revocation log': [100, 100, 'nothing: the next start reads it from the database'],
  'the follower of revocations': [
    800,
    800,
    'its sign-off: revocations wait for this process until it restarts',
  ],
  'the last uses of keys': [1_000, 1_000, 'the last seconds'],
  'the cleanup of keys': [100, 100, 'nothing: another run will do it'],
  'the counters': [
    5_500,
    10_000,
    'the last counts, if the files of this process are removed with it',
  ],
  'what was learned': [200, 500, 'estimates of the last seconds'],
  'the metrics': [100, 100, 'nothing'],
  'the export to the collector': [300, 1_000, 'spans and metrics of the last seconds'],
  'the usage ledger': [500, 3_000, 'nothing: the next start reads it from the journal'],
  notices: [200, 1_000, 'nothing: another process sends them'],
  'the internal listener': [100, 100, 'running calls'],
  'the controller': [4_000, 4_000, 'nothing: its Lease expires'],
} as const satisfies Record<string, readonly [shareMs: number, maxMs: number, lost: string]>

/** How this part is stopped. */
export function timedStop(name: keyof typeof shares, stop: TimedStop['stop']): TimedStop {
  const [shareMs, maxMs, lost] = shares[name]
  return { name, shareMs, maxMs, lost, stop }
}

/** Records in the audit trail that a command takes over keys. */

import { userInfo } from 'node:os'
import { openAuditSink } from '../audit/file.ts'
import { auditAct } from '../audit/service-events.ts'
import { createAuditTrail } from '../audit/trail.ts'
import type { Config } from '../settings/config.ts'

/**
 * Runs a take-over with a line before and after it, in the name of the terminal's user. `countOf`
 * returns the number of keys. With AUDIT_REQUIRED it runs only if the first line can be written. A trail
 * on standard output goes to standard error if the command prints JSON.
 */
export async function auditTakeOver<Result>(
  config: Config,
  act: () => Promise<Result>,
  countOf: (result: Result) => number,
  { warn, printsJson }: { readonly warn: (line: string) => void; readonly printsJson: boolean },
): Promise<Result> {
  const sink = openAuditSink(config.auditLog, printsJson ? 2 : 1)
  if (sink === undefined) return await act()
  const { auditRequired: required, replicaName: replica } = config
  const trail = createAuditTrail({ sink, required, replica, clock: Date.now })
  const actor = { user: userName(), source: 'cli' } as const
  try {
    return await auditAct(trail, { action: 'key.take_over', actor }, act, countOf)
  } finally {
    if (trail.lost > 0) warn('AUDIT_LOG: the audit trail could not be written.')
    await sink.close(1_000)
  }
}

/** The number of a user without a name, such as those of containers. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.())
  }
}

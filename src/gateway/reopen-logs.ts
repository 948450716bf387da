/** Envoy's admin page, of which one thing is asked: to open its log files anew. */

import type { Address } from './bootstrap.ts'

const answerWithinMs = 2_000

/** POSTs `/reopen_logs` to Envoy's admin page; rejects when it does not answer, or not with 200. */
export async function reopenLogs(admin: Exclude<Address, { path: string }>): Promise<void> {
  const host = admin.host.includes(':') ? `[${admin.host}]` : admin.host
  const answer = await fetch(`http://${host}:${admin.port}/reopen_logs`, {
    method: 'POST',
    signal: AbortSignal.timeout(answerWithinMs),
  })
  await answer.arrayBuffer()
  if (!answer.ok) throw new Error(`Envoy's admin page answered ${answer.status}`)
}

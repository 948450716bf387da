/** The audit trail of a process: its output, and events of the process itself. */

import { randomUUID } from 'node:crypto'
import { type AuditAction, serviceActor } from '../audit/event.ts'
import { openAuditSink } from '../audit/file.ts'
import { type AuditTrail, createAuditTrail, noTrail } from '../audit/trail.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { timedStop } from '../runtime/stops.ts'
import type { Context } from './context.ts'

/** Opens the configured trail. Call it before the parts that use it, so that it closes after them. */
export function openAudit({ config, log, clock, stops }: Omit<Context, 'audit'>): AuditTrail {
  const noFault = 'the disk does not respond'
  let fault: unknown = noFault
  const sink = openAuditSink(config.auditLog, log, (error) => {
    fault = error
  })
  if (sink === undefined) return noTrail
  stops.push(timedStop('the audit trail', (graceMs) => sink.close(graceMs)))
  return createAuditTrail({
    sink,
    required: config.auditRequired,
    replica: config.replicaName,
    clock,
    onChange(isWritten) {
      if (isWritten) {
        fault = noFault
        log.info({ code: 'audit_restored' }, 'resumed writing the audit trail')
      } else
        log.error(
          { code: 'audit_failing', auditLog: config.auditLog, cause: errorMessage(fault) },
          'cannot write the audit trail: an entry is late or lost',
        )
    },
  })
}

/** Records the start of this process's service, and its end when it is stopped. */
export async function auditServiceLifetime({ audit, stops }: Context): Promise<void> {
  const note = (action: AuditAction) =>
    audit.note({ action, outcome: 'success', actor: serviceActor, requestId: randomUUID() })
  // Written while other parts stop; the trail itself stops last, and waits for it.
  stops.push(() => void note('service.stop'))
  await note('service.start')
}

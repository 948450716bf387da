/** The audit trail of a process: its output, and events of the process itself. */

import { randomUUID } from 'node:crypto'
import { changesOf, inParts, knownOf } from '../audit/changes.ts'
import { type AuditAction, type ResourceChange, serviceActor } from '../audit/event.ts'
import { type AuditSink, openAuditFile, openAuditStream } from '../audit/file.ts'
import { type AuditTrail, createAuditTrail, noTrail } from '../audit/trail.ts'
import type { Resource } from '../core/kinds/resources.ts'
import { part } from '../runtime/stops.ts'
import type { Config } from '../settings/config.ts'
import type { Context } from './context.ts'

const stdout = 1

/**
 * Opens the configured trail. Call it before the parts that use it, so that it closes after them.
 */
export function openAudit({ config, log, clock, stops }: Omit<Context, 'audit'>): AuditTrail {
  const sink = openAuditSink(config)
  if (sink === undefined) return noTrail
  stops.push(part('the audit trail', (graceMs) => sink.close(graceMs)))
  return createAuditTrail({
    sink,
    required: config.auditRequired,
    replica: config.replicaName,
    clock,
    onChange(isWritten) {
      if (isWritten) log.info('the audit trail is written again')
      else log.error({ auditLog: config.auditLog }, 'a line of the audit trail is lost')
    },
  })
}

/** undefined: there is no trail. */
export function openAuditSink({ auditLog }: Config): AuditSink | undefined {
  if (auditLog === undefined) return undefined
  return auditLog === 'stdout' ? openAuditStream(stdout) : openAuditFile(auditLog)
}

/** Records the start of this process's service, and its end when it is stopped. */
export async function noteService({ audit, stops }: Context): Promise<void> {
  const note = (action: AuditAction) =>
    audit.note({ action, outcome: 'success', actor: serviceActor, requestId: randomUUID() })
  stops.push(() => note('service.stop'))
  await note('service.start')
}

/** Deletes keys that are due, with a line before and after. */
export async function auditCleanup(
  audit: AuditTrail,
  clean: () => Promise<number>,
): Promise<number> {
  const event = { action: 'key.cleanup', actor: serviceActor, requestId: randomUUID() } as const
  await audit.require({ ...event, outcome: 'intent' })
  try {
    const count = await clean()
    await audit.note({ ...event, outcome: 'success', count })
    return count
  } catch (error) {
    await audit.note({ ...event, outcome: 'unknown' })
    throw error
  }
}

/** Records the changes of each set of resources that was put in force. */
export function createResourceAudit(
  audit: AuditTrail,
): (fresh: readonly Resource[]) => Promise<void> {
  let last: readonly Resource[] = []
  return async (fresh) => {
    // Nearly all are the same objects; the few others are compared by name.
    const [before, now] = [new Set(last), new Set(fresh)]
    const changes = changesOf(
      knownOf(last.filter((each) => !now.has(each))),
      knownOf(fresh.filter((each) => !before.has(each))),
    )
    last = fresh
    const requestId = randomUUID()
    const note = (part: readonly ResourceChange[]) =>
      audit.note({
        action: 'resources.apply',
        outcome: 'success',
        actor: serviceActor,
        count: changes.length,
        changes: part,
        requestId,
      })
    await Promise.all(inParts(changes).map(note))
  }
}

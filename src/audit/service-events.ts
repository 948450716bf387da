/** Actions of the service itself, as events of the audit trail. */

import { randomUUID } from 'node:crypto'
import type { Resource } from '../kinds/resources.ts'
import { changesOf, inParts, resourcesByName } from './changes.ts'
import { type AuditEvent, type ResourceChange, serviceActor } from './event.ts'
import type { AuditTrail } from './trail.ts'

/**
 * Acts on `countOf` keys, with a line before and after; does not act if the first line is required and cannot be
 * written.
 */
export async function auditAct<Result>(
  audit: AuditTrail,
  { action, actor }: Pick<AuditEvent, 'action' | 'actor'>,
  act: () => Promise<Result>,
  countOf: (result: Result) => number,
): Promise<Result> {
  const event = { action, actor, requestId: randomUUID() }
  await audit.require({ ...event, outcome: 'intent' })
  const result = await act().catch(async (error: unknown) => {
    await audit.note({ ...event, outcome: 'unknown' })
    throw error
  })
  await audit.note({ ...event, outcome: 'success', count: countOf(result) })
  return result
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
      resourcesByName(last.filter((each) => !now.has(each))),
      resourcesByName(fresh.filter((each) => !before.has(each))),
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

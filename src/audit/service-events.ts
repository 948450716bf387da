/** What the service itself does, as events of the audit trail. */

import { randomUUID } from 'node:crypto'
import type { Resource } from '../core/kinds/resources.ts'
import { changesOf, inParts, knownOf } from './changes.ts'
import { type ResourceChange, serviceActor } from './event.ts'
import type { AuditTrail } from './trail.ts'

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

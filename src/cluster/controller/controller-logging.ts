/** Log lines of the controller. */

import type { Logger } from 'pino'
import type { AliveLease } from '../../kubernetes/lease-watch.ts'
import { originalGroup } from '../../models/rules/original/original-kinds.ts'

/** While the original's controller is alive, or may be. */
const notWritten = `nothing of ${originalGroup} is written`

/** By what they are about. A `problem` is undefined when it is over. */
export function controllerLogging(log: Logger) {
  return {
    leader: (isHeld: boolean) =>
      log.info(
        { code: 'lease_changed' },
        `${isHeld ? 'this' : 'another'} process is the leader and writes statuses`,
      ),
    ownLease: (problem: string | undefined) =>
      problem === undefined
        ? log.info({ code: 'lease_readable' }, 'resumed reading the Lease')
        : log.warn({ code: 'lease_unreadable', problem }, 'cannot read or renew the Lease'),
    unwritable: (path: string, problem: string) =>
      log.warn(
        { code: 'object_unwritable', path, problem },
        'cannot write an object to the cluster',
      ),
    collection: (collection: string, problem: string | undefined) =>
      problem === undefined
        ? log.info({ code: 'cluster_readable', collection }, 'resumed reading the cluster')
        : log.warn(
            { code: 'cluster_unreadable', collection, problem },
            'cannot read the cluster: statuses may be outdated',
          ),
    original: (alive: AliveLease | undefined) =>
      alive === undefined
        ? log.info(
            { code: 'original_gone' },
            `the models-as-a-service controller is not alive: ${originalGroup} is written`,
          )
        : log.warn(
            { code: 'original_alive', ...alive },
            `the models-as-a-service controller is alive: ${notWritten}`,
          ),
    originalLeases: (problem: string | undefined) =>
      problem === undefined
        ? log.info({ code: 'leases_readable' }, 'resumed reading Leases')
        : log.warn({ code: 'leases_unreadable', problem }, `cannot read Leases: ${notWritten}`),
    reports: (problem: string | undefined) =>
      problem === undefined
        ? log.info(
            { code: 'enforcement_readable' },
            'resumed reading from Postgres which resources are in force',
          )
        : log.warn(
            { code: 'enforcement_unreadable', problem },
            'cannot read from Postgres which resources are in force: statuses may be outdated',
          ),
    resources: (error: unknown) =>
      log.error({ code: 'resources_unreadable', err: error }, 'cannot read resources: will retry'),
  }
}

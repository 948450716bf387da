/** Logs changes of resources, and new problems. */

import type { Logger } from 'pino'
import { bypassedModels } from '../../cluster/rules/bypass.ts'
import { sharedPriorities } from '../../cluster/rules/conditions.ts'
import { maxLinesShown } from '../../runtime/line-limit.ts'
import type { Snapshot } from '../rules/snapshot.ts'

/**
 * Logs the resources in force after a change. A problem, a shared priority or a route past us is
 * logged when it is new or recurs.
 */
export function createResourceLogger(
  log: Pick<Logger, 'info' | 'warn'>,
): (fresh: Snapshot, problems: readonly string[]) => void {
  function warnOfNew(
    code: string,
    sentences: readonly string[],
    before: ReadonlySet<string>,
  ): ReadonlySet<string> {
    const added = sentences.filter((sentence) => !before.has(sentence))
    for (const sentence of added.slice(0, maxLinesShown)) log.warn({ code }, sentence)
    return new Set(sentences)
  }

  let known: ReadonlySet<string> = new Set()
  let shared: ReadonlySet<string> = new Set()
  let bypassed: ReadonlySet<string> = new Set()
  let models: Snapshot['models'] | undefined
  let subscriptions: Snapshot['subscriptions'] | undefined
  return (fresh, problems) => {
    const added = problems.filter((problem) => !known.has(problem))
    for (const problem of added.slice(0, maxLinesShown))
      log.warn({ code: 'resource_problem', problem }, 'a resource is invalid or incomplete')
    if (added.length > maxLinesShown) {
      log.warn(
        { code: 'resource_problems_omitted', problems: added.length - maxLinesShown },
        'more resource problems are not logged',
      )
    }
    known = new Set(problems)
    if (fresh.subscriptions !== subscriptions) {
      shared = warnOfNew('priority_shared', sharedPriorities(fresh), shared)
      subscriptions = fresh.subscriptions
    }
    if (fresh.models !== models) {
      bypassed = warnOfNew('model_bypassed', bypassedModels(fresh), bypassed)
      models = fresh.models
    }
    log.info(
      {
        code: 'resources_in_force',
        models: models.size,
        policies: fresh.policies.size,
        subscriptions: subscriptions.size,
        problems: problems.length,
      },
      'resources in force',
    )
  }
}

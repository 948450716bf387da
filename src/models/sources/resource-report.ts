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
  function warn(code: string, sentences: readonly string[]): void {
    for (const sentence of sentences.slice(0, maxLinesShown)) log.warn({ code }, sentence)
  }

  const newProblems = createNewTextFilter()
  const newShared = createNewTextFilter()
  const newBypassed = createNewTextFilter()
  let models: Snapshot['models'] | undefined
  let subscriptions: Snapshot['subscriptions'] | undefined
  return (fresh, problems) => {
    const added = newProblems(problems)
    for (const problem of added.slice(0, maxLinesShown))
      log.warn({ code: 'resource_problem', problem }, 'a resource is invalid or incomplete')
    if (added.length > maxLinesShown) {
      log.warn(
        { code: 'resource_problems_omitted', problems: added.length - maxLinesShown },
        'more resource problems are not logged',
      )
    }
    if (fresh.subscriptions !== subscriptions) {
      warn('priority_shared', newShared(sharedPriorities(fresh)))
      subscriptions = fresh.subscriptions
    }
    if (fresh.models !== models) {
      warn('model_bypassed', newBypassed(bypassedModels(fresh)))
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

/** Selects the texts that were not among those of the last call. */
function createNewTextFilter(): (texts: readonly string[]) => readonly string[] {
  let known: ReadonlySet<string> = new Set()
  return (texts) => {
    const added = texts.filter((text) => !known.has(text))
    known = new Set(texts)
    return added
  }
}

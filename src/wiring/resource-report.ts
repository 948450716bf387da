/** What the log has of resources: each change once, and of what is wrong that which is new. */

import type { Logger } from 'pino'
import { bypassedModels } from '../core/bypass.ts'
import { sharedPriorities } from '../core/conditions.ts'
import type { Snapshot } from '../core/snapshot.ts'

/** Of one kind of line so many are logged for a change; the internal API has all. */
export const linesShown = 100

/**
 * Logs what is in force after a change. A problem, a shared priority or a way past us is a line when
 * it was not there before, and has one again when it comes back.
 */
export function createResourceReport(
  log: Pick<Logger, 'info' | 'warn'>,
): (fresh: Snapshot, problems: readonly string[]) => void {
  function warnOfNew(
    sentences: readonly string[],
    before: ReadonlySet<string>,
  ): ReadonlySet<string> {
    const added = sentences.filter((sentence) => !before.has(sentence))
    for (const sentence of added.slice(0, linesShown)) log.warn(sentence)
    return new Set(sentences)
  }

  let known: ReadonlySet<string> = new Set()
  let shared: ReadonlySet<string> = new Set()
  let bypassed: ReadonlySet<string> = new Set()
  let models: Snapshot['models'] | undefined
  let subscriptions: Snapshot['subscriptions'] | undefined
  return (fresh, problems) => {
    const added = problems.filter((problem) => !known.has(problem))
    for (const problem of added.slice(0, linesShown)) log.warn({ problem }, 'resource problem')
    if (added.length > linesShown) {
      log.warn({ problems: added.length - linesShown }, 'and more resource problems')
    }
    known = new Set(problems)
    if (fresh.subscriptions !== subscriptions) {
      shared = warnOfNew(sharedPriorities(fresh), shared)
      subscriptions = fresh.subscriptions
    }
    if (fresh.models !== models) {
      bypassed = warnOfNew(bypassedModels(fresh), bypassed)
      models = fresh.models
    }
    log.info(
      {
        models: models.size,
        policies: fresh.policies.size,
        subscriptions: subscriptions.size,
        problems: problems.length,
      },
      'resources in force',
    )
  }
}

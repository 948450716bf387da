/** What answers used: charged from the gateway's stream, its journal and its rate limit calls. */

import { reopenLogs } from '../gateway/reopen-logs.ts'
import { createJournal, type Journal } from '../ratelimit/journal/journal.ts'
import { createSettle, type Settle } from '../ratelimit/settle.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { Resources } from './resources.ts'
import { part } from './stops.ts'

/** What charges, told to the metrics too. */
export function openSettle(
  { config, log, clock }: Context,
  { counters, redis }: Counters,
  { snapshot }: Resources,
  telemetry: Telemetry,
): Settle {
  const startedAt = clock()
  return createSettle({
    snapshot,
    counters,
    clock,
    unusableUsage: config.unusableUsage,
    onSettled(usage, settled, by) {
      // It repeats what the stream has told, but for what the stream could not tell.
      if (by === 'journal') return
      if (settled.unusable) {
        telemetry.onUnusable(usage.model)
        log.warn(
          { model: usage.model, estimated: settled.tokens },
          'an answer reported no usable usage',
        )
      }
    },
    onCounted(usage, counted, by) {
      // Counters of this process alone are rebuilt at its start of what the one before has counted.
      const isRebuilt = redis === undefined && by === 'journal'
      if (isRebuilt && (usage.response?.endedAt ?? 0) < startedAt) return
      telemetry.onCounted(usage, counted)
    },
  })
}

/** The journal's reader, not started yet; undefined where there is none. */
export function openJournal(
  { config, log, clock, stops }: Context,
  { counters, redis }: Counters,
  settle: Settle,
): Journal | undefined {
  if (config.usageJournal === undefined) return undefined
  const journal = createJournal({
    path: config.usageJournal,
    rotateBytes: config.usageJournalBytes,
    settle,
    counters,
    lasting: redis !== undefined,
    clock,
    reopen: () => reopenLogs(config.envoyAdminAddress),
    log,
  })
  stops.push(part('the usage journal', (graceMs) => journal.stop(graceMs)))
  return journal
}

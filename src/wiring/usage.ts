/** What answers used: charged from the gateway's stream, its journal and its rate limit calls. */

import { reopenLogs } from '../gateway/reopen-logs.ts'
import { createJournal, type Journal } from '../ratelimit/journal/journal.ts'
import { createSettle, type Settle } from '../ratelimit/settle.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { Resources } from './resources.ts'

/** What charges, told to the metrics too. */
export function openSettle(
  { config, log, clock }: Context,
  { counters }: Counters,
  { snapshot }: Resources,
  telemetry: Telemetry,
): Settle {
  return createSettle({
    snapshot,
    counters,
    clock,
    unusableUsage: config.unusableUsage,
    onSettled(usage, settled, by) {
      // It repeats what the stream has told, but for what the stream could not tell.
      if (by === 'journal') return
      telemetry.onSettled(usage, settled)
      if (settled.unusable) {
        log.warn(
          { model: usage.model, estimated: settled.tokens },
          'an answer reported no usable usage',
        )
      }
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
  stops.push({
    name: 'the usage journal',
    shareMs: 1_200,
    lost: 'nothing: its claim lapses within seconds',
    stop: () => journal.stop(),
  })
  return journal
}

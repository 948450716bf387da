/** Charges usage from the gateway's stream, its journal and its rate limit calls. */

import { reopenLogs } from '../gateway/reopen-logs.ts'
import { createHeld, type Held } from '../ratelimit/held.ts'
import type { ListedFile } from '../ratelimit/journal/folder.ts'
import { createJournal, type Journal } from '../ratelimit/journal/journal.ts'
import { createSettle, type Settle } from '../ratelimit/settle.ts'
import { part } from '../runtime/stops.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { NoteUse } from './notices.ts'
import type { Resources } from './resources.ts'

/** Charges usage, and reports it to the metrics. */
export function openSettle(
  { config, log, clock }: Context,
  { counters, redis, holds, estimators }: Counters,
  { snapshot }: Resources,
  telemetry: Telemetry,
  noteUse: NoteUse,
): { readonly settle: Settle; readonly held: Held } {
  const startedAt = clock()
  const held = createHeld({ snapshot, holds, estimators })
  const settle = createSettle({
    snapshot,
    counters,
    clock,
    unusableUsage: config.unusableUsage,
    held,
    onSettled(usage, settled, by) {
      // The journal's line too: the process that the stream told may have been killed.
      if (settled.tokens) noteUse?.(usage)
      // The journal repeats the stream, except for responses that the stream missed.
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
      // Counters of this process alone are rebuilt at its start from what its predecessor has
      // counted.
      const isRebuilt = redis === undefined && by === 'journal'
      if (isRebuilt && (usage.response?.endedAt ?? 0) < startedAt) return
      telemetry.onCounted(usage, counted)
    },
  })
  return { settle, held }
}

/** The journal's reader, not started yet; undefined if there is no journal. */
export function openJournal(
  { config, log, clock, stops }: Context,
  { counters, redis }: Counters,
  settle: Settle,
  isRead: ((file: ListedFile) => boolean) | undefined,
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
    ...(isRead && { isRead }),
    daily: config.usageArchiveDir !== undefined,
  })
  stops.push(part('the usage journal', (graceMs) => journal.stop(graceMs)))
  return journal
}

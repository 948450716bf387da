/** Updates metrics, the use of keys, notices and the log for each line, in a gateway's writer. */

import type { Logger } from 'pino'
import type { RequestOutcome } from './rules/model-failure.ts'
import type { Usage } from './rules/usage.ts'
import type { WriterListeners } from './settle.ts'

export interface WriterListenersDeps {
  /** Logs failures of models. */
  readonly health: { tell(outcome: RequestOutcome): void }
  readonly metrics: {
    onEnded(outcome: RequestOutcome): void
    onAdmitted(usage: Usage): void
    onUnusable(model: string): void
    onCounted(usage: Usage, counted: Record<'tokens' | 'estimated', number>): void
  }
  /** Called with the id of a key that was used without a Check, and when (ms since the epoch). */
  readonly noteKeyUse: (keyId: string, at: number) => void
  /** Notes a counted response; undefined if no notices are sent. */
  readonly noteUse: ((usage: Usage) => void) | undefined
  readonly log: Pick<Logger, 'warn'>
}

export function createWriterListeners(deps: WriterListenersDeps): WriterListeners {
  const { health, metrics, noteKeyUse, noteUse, log } = deps
  return {
    onEnded(outcome) {
      health.tell(outcome)
      metrics.onEnded(outcome)
    },
    onAdmitted(usage, startedAt) {
      metrics.onAdmitted(usage)
      if (usage.keyId !== undefined) noteKeyUse(usage.keyId, startedAt)
    },
    onCharged(usage, { tokens = 0, estimated, unusable }) {
      if (unusable) {
        metrics.onUnusable(usage.model)
        log.warn(
          { code: 'usage_unusable', model: usage.model, estimated },
          'a response has no usable usage',
        )
      }
      if (tokens === 0) return
      metrics.onCounted(usage, { tokens, estimated })
      noteUse?.(usage)
    },
  }
}

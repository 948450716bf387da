/** What the gateway's access log says of model servers: their state, and a line in the log. */

import type { Logger } from 'pino'
import type { BackendState } from '../core/conditions.ts'
import type { Outcome } from '../core/model-failure.ts'
import type { Snapshot } from '../core/snapshot.ts'

/** Milliseconds between two lines about one model and one reason. */
const quietMs = 30_000
/** Models that are remembered; of more of them the oldest are forgotten. */
const mostModels = 100_000

export interface ModelHealthDeps {
  readonly snapshot: () => Snapshot
  readonly log: Pick<Logger, 'warn'>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

export interface ModelHealth {
  note(outcome: Outcome): void
  /** How the last request to this model's server ended; undefined: there was none. */
  stateOf(model: string): BackendState | undefined
}

interface Lines {
  at: number
  more: number
}

export function createModelHealth({ snapshot, log, clock }: ModelHealthDeps): ModelHealth {
  const states = new Map<string, BackendState>()
  const lines = new Map<string, Lines>()

  function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
    map.set(key, value)
    if (map.size <= mostModels) return
    const [oldest] = map.keys()
    if (oldest !== undefined) map.delete(oldest)
  }

  return {
    note({ model, requestId, failure, answered }) {
      if (failure === undefined) {
        if (answered && states.get(model)?.failure !== null) remember(states, model, reachable)
        return
      }
      const { reason } = failure
      remember(states, model, { failure })
      const key = `${model} ${reason}`
      const said = lines.get(key)
      const now = clock()
      if (said !== undefined && now - said.at < quietMs) {
        said.more += 1
        return
      }
      remember(lines, key, { at: now, more: 0 })
      const { caFile } = snapshot().models.get(model)?.resource.server ?? {}
      log.warn(
        {
          model,
          requestId,
          reason,
          detail: failure.detail,
          ...(reason === 'tls' && { authorities: caFile ?? 'the usual ones' }),
          ...(said !== undefined && said.more > 0 && { more: said.more }),
        },
        'a model server failed',
      )
    },
    stateOf: (model) => states.get(model),
  }
}

const reachable: BackendState = { failure: null }

/** The state of model servers according to the gateway's lines, and log lines about it. */

import type { Logger } from 'pino'
import type { BackendState } from '../cluster/rules/conditions.ts'
import { BoundedMap } from '../runtime/bounded-map.ts'
import { createLineLimit } from '../runtime/line-limit.ts'
import type { RequestOutcome } from '../usage/rules/model-failure.ts'
import type { Snapshot } from './rules/snapshot.ts'

/** Milliseconds between two lines about one model and one reason. */
const quietMs = 30_000
/** A line that ended later than now by so many milliseconds has the time of a clock that was wrong. */
const aheadMs = 5_000
/** Maximum number of models; beyond it the oldest are forgotten. */
const maxModels = 100_000

interface ModelHealthDeps {
  readonly snapshot: () => Snapshot
  readonly log: Pick<Logger, 'warn'>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

export function createModelHealth(deps: ModelHealthDeps) {
  const { snapshot, log, clock } = deps
  const states = new BoundedMap<string, { readonly state: BackendState; readonly at: number }>(
    maxModels,
  )
  const lines = createLineLimit(quietMs)

  function remember(model: string, state: BackendState, at: number): void {
    // Lines of two files come in any order.
    const last = states.get(model)?.at ?? 0
    if (at < last && last <= clock() + aheadMs) return
    states.set(model, { state, at })
  }

  return {
    /** Call it for each request that has ended. */
    note({ model, endedAt, failure, hasResponded }: RequestOutcome): void {
      if (failure !== undefined) remember(model, { failure }, endedAt)
      else if (hasResponded) remember(model, reachable, endedAt)
    },
    /** Logs a failure; call it in only one process of a gateway. */
    tell({ model, requestId, failure }: RequestOutcome): void {
      if (failure === undefined) return
      const { reason } = failure
      const more = lines.pass(`${model} ${reason}`, clock())
      if (more === undefined) return
      const { caFile } = snapshot().models.get(model)?.resource.server ?? {}
      log.warn(
        {
          code: 'model_failing',
          model,
          request_id: requestId,
          reason,
          detail: failure.detail,
          ...(reason === 'tls' && { authorities: caFile ?? 'the default ones' }),
          ...(more > 0 && { more }),
        },
        'a model server failed',
      )
    },
    /** How the last request to this model's server ended, or undefined if there was none. */
    stateOf: (model: string): BackendState | undefined => states.get(model)?.state,
  }
}

const reachable: BackendState = { failure: null }

/** Drains this process's Envoy for `tollgate drain`. */

import { setTimeout as delay } from 'node:timers/promises'
import type { DrainState, GatewayDrain } from '../cluster/rules/gateway-drain.ts'
import { withTimeout } from '../runtime/with-timeout.ts'
import type { ProcessContext } from '../settings/context.ts'
import { drainEnvoy, isServing } from './drain.ts'

/** The longest wait for a response (milliseconds): far below the listener's timeout. */
const responseWithinMs = 5_000

/** Between two checks for a new Envoy in place of the drained one. */
const pollMs = 1_000

/**
 * From the first call on the process is not ready, but continues to serve. It is ready again when an Envoy responds
 * that is not drained, because a container whose probe failed is drained and restarted.
 */
export function createGatewayDrain({ config, log, stops }: ProcessContext): GatewayDrain {
  const closing = new AbortController()
  stops.push(() => closing.abort())
  let state: DrainState | undefined
  let done: Promise<void> = Promise.resolve()

  async function drain(): Promise<void> {
    const { envoyAdminAddress: admin, drainMinMs: minMs, drainMs: maxMs } = config
    log.info({ code: 'envoy_draining' }, 'not ready: Envoy is draining')
    const onRunning = (requests: number): void => {
      state = { status: 'draining', requests }
    }
    try {
      const options = { admin, minMs, maxMs, onRunning, signal: closing.signal }
      const { requests, connections, tookMs } = await drainEnvoy(options)
      state = { status: requests === 0 ? 'drained' : 'overdue', requests }
      const about = { requests, connections, ms: Math.round(tookMs) }
      if (requests === 0)
        log.info({ code: 'envoy_drained', ...about }, 'drained Envoy: no request is in progress')
      else
        log.warn(
          { code: 'envoy_drain_timeout', ...about },
          'drain timed out: Envoy still has requests in progress',
        )
    } catch (error) {
      state = { status: 'unreachable' }
      log.warn(
        { code: 'envoy_drain_failed', cause: String(error) },
        'cannot drain Envoy: its admin interface does not respond',
      )
    }
    void waitForNext()
  }

  async function waitForNext(): Promise<void> {
    while (!closing.signal.aborted) {
      await delay(pollMs, undefined, { ref: false })
      if (!(await isServing(config.envoyAdminAddress).catch(() => false))) continue
      log.info({ code: 'envoy_serving' }, 'ready again: another Envoy is serving')
      state = undefined
      return
    }
  }

  return {
    get isAsked() {
      return state !== undefined
    },
    async ask() {
      if (state === undefined) {
        state = { status: 'draining' }
        done = drain()
      }
      await withTimeout(responseWithinMs, done)
      return state
    },
  }
}

/**
 * A worker: a process that serves the gateway at an address of its own, and nothing else. Its
 * parent has the counters, the journal, the metrics page and the REST API. For the database and the
 * resources it is a replica like any other.
 */

import { hostname } from 'node:os'
import { pino } from 'pino'
import { noTrail } from '../../audit/trail.ts'
import { onStop } from '../../cli/stop-signals.ts'
import { loadConfig } from '../../config.ts'
import type { BackendState } from '../../core/conditions.ts'
import type { Context } from '../context.ts'
import { createGatewayServer } from '../gateway-server.ts'
import { listenGrpc } from '../listen.ts'
import { openTls } from '../listener-tls.ts'
import { openParts } from '../parts.ts'
import { type Stop, stopInOrder } from '../shutdown.ts'
import { createLink, type Link } from './link.ts'
import { configFor, type Orders } from './orders.ts'

/** How long a worker that gets a signal may take to stop; milliseconds. */
const usualGraceMs = 14_000
/** Milliseconds between two messages that the stream has reported responses. */
const reportEveryMs = 250

/** Waits for its orders, executes them, and ends with its parent. */
export function runWorker(): void {
  // Its counters are gone with the parent, which is restarted and needs this worker's address.
  process.once('disconnect', () => process.exit(1))
  const starting = new AbortController()
  let worker: ReturnType<typeof startWorker> | undefined
  let stopping = false

  const link = createLink(
    (message) => {
      if (process.connected) process.send?.(message, () => {})
    },
    {
      async start(orders: Orders) {
        worker = startWorker(orders, link, starting.signal)
        return (await worker).address
      },
      stop,
      ping() {},
      async level(level: string) {
        if (worker !== undefined) (await worker).log.level = level
      },
      async backend(model: string, state: BackendState) {
        ;(await worker)?.parts.health.take(model, state)
      },
      figures: async () => (await worker)?.parts.telemetry.collect(),
    },
    (error) => console.error(error),
  )
  process.on('message', link.take)

  async function stop(graceMs: number): Promise<void> {
    if (stopping) return
    stopping = true
    starting.abort()
    const started = await worker?.catch(() => undefined)
    if (started === undefined) process.exit(0)
    const { log, stops } = started
    const complete = await stopInOrder(stops.reverse(), { log, budgetMs: graceMs })
    process.exit(complete ? 0 : 1)
  }

  void onStop(() => {}).then(() => stop(usualGraceMs))
}

async function startWorker(orders: Orders, parent: Link, signal: AbortSignal) {
  const config = configFor(loadConfig(process.env), orders)
  const base = { pid: process.pid, hostname: hostname(), worker: orders.index }
  const log = pino({ level: orders.logLevel, base })
  const onFault = (error: unknown): void => log.error({ err: error }, 'fault')
  const stops: Stop[] = []
  const context: Context = {
    ...{ config, env: process.env, log, clock: Date.now, onFault, stops, signal, parent },
    audit: noTrail,
  }
  const tls = openTls(context)
  const parts = await openParts(context, { journal: () => undefined, workers: () => undefined })
  const grpc = createGatewayServer(context, parts, { tls, onReported: throttledReport(parent) })
  stops.push({
    name: 'the listeners',
    shareMs: 5_000,
    lost: 'calls under way',
    async stop(graceMs) {
      await grpc.stop(graceMs)
      // Nothing is counted any more after this message.
      await parts.counterParts.counters.kept()
      parent.notify('ended', await parts.telemetry.collect())
    },
  })
  const address = await listenGrpc(grpc, orders.address, config.socketMode)
  return { address, log, parts, stops }
}

/** Sends at once, and again after a while if there was more. */
function throttledReport(parent: Link): () => void {
  let timer: NodeJS.Timeout | undefined
  let isMore = false
  return () => {
    isMore = true
    if (timer !== undefined) return
    isMore = false
    parent.notify('reported')
    timer = setTimeout(() => {
      timer = undefined
      if (isMore) parent.notify('reported')
    }, reportEveryMs).unref()
  }
}

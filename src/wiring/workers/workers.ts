/**
 * The workers of this process (docs/decisions/0008-workers.md): starts each at an address of its
 * own, restarts one that ends by itself, collects their metrics, and stops them with this process.
 */

import { setTimeout as delay } from 'node:timers/promises'
import type { MetricData } from '@opentelemetry/sdk-metrics'
import type { BackendState } from '../../core/conditions.ts'
import type { Address } from '../../settings/address.ts'
import type { CounterCommands } from '../../store/counters/redis/scripts.ts'
import { lasting, mergeMetrics } from '../../telemetry/merge.ts'
import { type Context, orAborted } from '../context.ts'
import type { Parts } from '../parts.ts'
import { watchAnswers } from './answer-watch.ts'
import { type Orders, ordersFor } from './orders.ts'
import { spawnWorker, type WorkerProcess } from './process.ts'

export type Workers = ReturnType<typeof createWorkers>

interface Slot {
  readonly index: number
  /** With the actual port. */
  address: Address
  process: WorkerProcess | undefined
  isReady: boolean
  /** Its last known metrics. */
  figures: readonly MetricData[]
}

/** Their share of a shutdown: for their calls, then for handing over what they have. */
export const workerShareMs = 8_000
/** A start may wait half a minute for the database. */
const startMs = 60_000
const figuresMs = 1_000
/** If one ends sooner than this after its start, the pause before its next start grows. */
const steadyMs = 10_000
const longestBackoffMs = 10_000
/** A worker that misses this many pings hangs; the busiest one answers within milliseconds. */
const pingEveryMs = 1_000
const mostMissedPings = 10

/**
 * Workers that are not started yet. Calls `onReported` when the stream of one has reported a response.
 */
export function createWorkers(context: Context, parts: Parts, onReported: () => void) {
  const { config, env, log, onFault } = context
  const { counterParts, health, learner, database } = parts
  const slots: Slot[] = config.grpcAddresses.map((address, index) => ({
    ...{ index, address, process: undefined, isReady: false, figures: [] },
  }))
  const stopping = new AbortController()
  let restarts = 0
  let departed: readonly MetricData[] = []
  let departedUnder = ''

  log.on('level-change', (level: string) => {
    for (const { process } of slots) process?.link.notify('level', level)
  })

  function handlersFor(slot: Slot) {
    const owner = counterParts.owner as CounterCommands
    return {
      add: owner?.add,
      read: owner?.read,
      restore: owner?.restore,
      reported: onReported,
      // Changes of a model server's state that one has seen are passed on to the others.
      backend(model: string, state: BackendState) {
        health.take(model, state)
        for (const other of slots)
          if (other !== slot) other.process?.link.notify('backend', model, state)
      },
      ended(figures: readonly MetricData[]) {
        slot.figures = figures
      },
    }
  }

  /** Resolves when it serves the gateway. */
  async function spawn(slot: Slot): Promise<void> {
    const started = spawnWorker(env, handlersFor(slot), onFault)
    slot.process = started
    void started.exited.then(() => {
      slot.isReady = false
      remember(slot)
    })
    const orders: Orders = ordersFor(config, {
      index: slot.index,
      address: slot.address,
      databaseUrl: config.databaseUrl === undefined ? database.url() : undefined,
      logLevel: log.level,
    })
    slot.address = await started.link.call<Address>('start', [orders], startMs).catch((error) => {
      started.kill()
      throw error
    })
    slot.isReady = true
    endIfHung(slot.index, started)
  }

  /** Kills one that hangs, because it neither answers nor ends; `keep` starts it again. */
  function endIfHung(worker: number, { pid: workerPid, link, exited, kill }: WorkerProcess): void {
    // The timeout of a ping is longer than the watch.
    const ask = () => link.call('ping', [], 2 * mostMissedPings * pingEveryMs)
    const watch = watchAnswers(ask, mostMissedPings, () => {
      log.error({ worker, workerPid, pings: mostMissedPings }, 'a worker hangs: it is killed')
      kill()
    })
    const pings = setInterval(() => watch.tick(), pingEveryMs).unref()
    void exited.then(() => clearInterval(pings))
  }

  /** Its counts remain. */
  function remember(slot: Slot): void {
    departed = mergeMetrics(forgetLabels(), [lasting(slot.figures)])
    slot.figures = []
  }

  /** Captured labels must not outlive the Tenant's choice. */
  function forgetLabels(): readonly MetricData[] {
    const under = JSON.stringify(learner.snapshot().tenant?.telemetry ?? null)
    if (under === departedUnder) return departed
    departedUnder = under
    return departed.filter(({ descriptor }) => !/^(authorized|limited)_/.test(descriptor.name))
  }

  /** Starts it again whenever it has ended. */
  async function keep(slot: Slot): Promise<void> {
    let backoffMs = 0
    for (;;) {
      const since = performance.now()
      const how = await slot.process?.exited
      if (stopping.signal.aborted) return
      backoffMs = performance.now() - since > steadyMs ? 0 : Math.max(500, 2 * backoffMs)
      backoffMs = Math.min(backoffMs, longestBackoffMs)
      const { index: worker, process } = slot
      log.error({ worker, workerPid: process?.pid, how, inMs: backoffMs }, 'a worker ended')
      await delay(backoffMs, undefined, { signal: stopping.signal }).catch(() => {})
      if (stopping.signal.aborted) return
      restarts += 1
      await spawn(slot).then(
        () => log.info({ worker, workerPid: slot.process?.pid }, 'the worker is back'),
        (error: unknown) => {
          if (!stopping.signal.aborted) log.error({ worker, err: error }, 'a worker did not start')
        },
      )
    }
  }

  async function askFigures(slot: Slot): Promise<void> {
    if (!slot.isReady) return
    const process = slot.process as WorkerProcess
    const figures = await process.link
      .call<readonly MetricData[]>('figures', [], figuresMs)
      .catch(() => undefined)
    // Not if it has ended meanwhile.
    if (figures !== undefined && slot.process === process && slot.isReady) slot.figures = figures
  }

  function countReady(): number {
    return slots.filter(({ isReady }) => isReady).length
  }

  return {
    count: slots.length,
    /** The number of those that serve the gateway now. */
    get ready(): number {
      return countReady()
    },
    get stats(): { readonly ready: number; readonly restarts: number } {
      return { ready: countReady(), restarts }
    },
    /** Resolves with their addresses once all are ready; rejects if one cannot start. */
    async start(): Promise<readonly Address[]> {
      await orAborted(Promise.all(slots.map(spawn)), context.signal).catch((cause: unknown) => {
        throw new Error('WORKERS: a worker could not start', { cause })
      })
      for (const slot of slots) keep(slot).catch(onFault)
      return slots.map(({ address }) => address)
    },
    /** The metrics of all workers, including ended ones. Waits one second for one that hangs. */
    async figures(): Promise<readonly (readonly MetricData[])[]> {
      await Promise.all(slots.map(askFigures))
      departed = forgetLabels()
      return [departed, ...slots.map(({ figures }) => figures)]
    },
    /** Waits at most this long for calls to end. */
    async stop(graceMs: number): Promise<void> {
      stopping.abort()
      const running = slots.flatMap(({ process }) => process ?? [])
      for (const { link } of running) link.notify('stop', graceMs)
      const over = new AbortController()
      void delay(graceMs, undefined, { signal: over.signal }).then(
        () => {
          for (const each of running) each.kill()
        },
        () => {},
      )
      const ends = await Promise.all(running.map(({ exited }) => exited))
      over.abort()
      const bad = ends.filter((how) => how !== 'exit code 0')
      if (bad.length > 0) throw new Error(`workers ended by ${bad.join(', ')}`)
    },
  }
}

/** What all processes that may be serving report to have in force, from the database. */

import { errorMessage } from '../../runtime/error-message.ts'
import { createRestTimer, repeat } from '../../runtime/loop.ts'
import { createOutage } from '../../runtime/outage.ts'
import { createSingleFlight } from '../../runtime/single-flight.ts'
import { startNotificationListener } from '../../store/postgres/listener.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import type { InForce, ProcessReport, Reports } from '../rules/enforcement.ts'
import { databaseProblem, isSilent } from '../rules/enforcement.ts'
import { inForceChannel, type ReportPosition, readReports } from './report-rows.ts'

interface Known {
  readonly last: ReportPosition
  readonly inForce: Map<string, InForce>
}

const deadlineMs = 1_500

export function followReports(sql: Sql) {
  let known = new Map<string, Known>()
  let signature = ''
  let changed: ReadonlySet<string> | undefined
  let failure: unknown

  async function read(): Promise<Reports> {
    const editions = new Map([...known].map(([replica, { last }]) => [replica, last]))
    const found = await readReports(sql, editions, deadlineMs)
    const touched = new Set<string>()
    const fresh = new Map<string, Known>()
    const reports: ProcessReport[] = found.map(({ replica, name, unreportedMs, last, changes }) => {
      const before = known.get(replica)
      const inForce = before?.last.edition === last?.edition ? before?.inForce : undefined
      const all = inForce ?? new Map<string, InForce>()
      for (const [model, each] of changes) {
        touched.add(model)
        if (each === undefined) all.delete(model)
        else all.set(model, each)
      }
      if (last !== undefined) fresh.set(replica, { last, inForce: all })
      return { name, unreportedMs, inForce: all }
    })
    known = fresh
    const now = found.map(({ replica, last }, at) => {
      const isQuiet = isSilent(reports[at] as ProcessReport)
      return `${replica} ${last?.edition} ${isQuiet}`
    })
    changed = now.join() === signature ? touched : undefined
    signature = now.join()
    failure = undefined
    return reports
  }

  return {
    /** Reads and adds what is new. Never rejects; an outage of the database is a problem. */
    read: createSingleFlight(() =>
      // Two concurrent reads would each skip what the other one has read.
      read().catch((error: unknown): Reports => {
        changed = undefined
        signature = ''
        failure = error
        return { problem: databaseProblem }
      }),
    ),
    /** Models whose reports have changed with the last `read`, or undefined if possibly all have. */
    get changed(): ReadonlySet<string> | undefined {
      return changed
    },
    /** Why the last read failed. */
    get failure(): unknown {
      return failure
    },
  }
}

export interface WatchedReportsOptions {
  readonly sql: Sql
  readonly url: string | (() => string)
  /** The current reports, and the models for which they may have changed, or undefined for all. */
  readonly onRead: (reports: Reports, changed: ReadonlySet<string> | undefined) => void
  /** Called with the problem when the database does not respond, and with undefined when it does again. */
  readonly onProblem: (problem: string | undefined) => void
  readonly signal: AbortSignal
}

/** Between two polls, milliseconds. */
const everyMs = 1_000
/** Reports within this time are read together; milliseconds. */
const settleMs = 20
/** How long the last reports stay valid while the database is unavailable; milliseconds. */
const believedMs = 5_000

/** Reads reports as they arrive, until `signal`. */
export function watchReports(options: WatchedReportsOptions): void {
  const { sql, url, onRead, onProblem, signal } = options
  const reader = followReports(sql)
  const alarm = createRestTimer(signal)
  const listener = startNotificationListener({
    url,
    channels: [inForceChannel],
    onNotification: () => alarm.ring(),
  })
  signal.addEventListener('abort', () => listener.stop(), { once: true })
  let respondedAt = Number.NEGATIVE_INFINITY
  const outage = createOutage(onProblem)

  async function step(): Promise<void> {
    const reports = await reader.read()
    const hasReports = !('problem' in reports)
    if (hasReports) respondedAt = performance.now()
    outage.note(hasReports ? undefined : describe(reader.failure))
    if (hasReports || performance.now() - respondedAt > believedMs) onRead(reports, reader.changed)
  }

  // A fault of `onRead` is not handled, like any other bug.
  const onFault = (error: unknown): never => {
    throw error
  }
  void repeat({ step, restMs: everyMs, settleMs, onFault, signal, alarm })
}

function describe(failure: unknown): string {
  return errorMessage(failure instanceof Error ? (failure.cause ?? failure) : failure)
}

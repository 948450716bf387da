/**
 * Reports what this process has in force, and which clusters its Envoy has: changes at once, and
 * every few seconds that the process is alive.
 */

import { randomUUID } from 'node:crypto'
import { ServiceError } from '../../formats/errors.ts'
import type { RefusedResource } from '../../models/rules/refused-resources.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { createRestTimer, repeat } from '../../runtime/loop.ts'
import { createMutex } from '../../runtime/mutex.ts'
import { inSlices } from '../../runtime/slices.ts'
import { databaseRetryMs } from '../../store/postgres/connection.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import type { EnvoyState, InForce } from '../rules/enforcement.ts'
import { type AllModelPolicies, noPolicies, policiesInSteps } from '../rules/policies.ts'
import {
  type InForceChanges,
  purgeReports,
  type ReportPosition,
  reportAllInForce,
  reportChanges,
} from './report-rows.ts'

interface InForceReportDeps {
  readonly sql: Sql
  /** The process's name in the table of replicas. */
  readonly replica: string
  /** What is in force, and what was refused. */
  readonly state: () => {
    readonly snapshot: Snapshot
    readonly refused: readonly RefusedResource[]
  }
  readonly envoyOf: (model: string) => EnvoyState
  /** A failure other than an outage of the database; it is retried. */
  readonly onFault: (error: unknown) => void
}

/** Milliseconds between two reports that this process is alive. */
const confirmMs = 5_000
/** Confirmations between two deletions of obsolete reports. */
const purgeEvery = 360

export function createInForceReport(deps: InForceReportDeps) {
  const { sql, replica } = deps
  const closing = new AbortController()
  const { signal } = closing
  let policies: AllModelPolicies = noPolicies
  /** What the database has, as one text per model; removed models are reported too. */
  let reported = new Map<string, string>()
  let last: ReportPosition | undefined
  let reports = 0
  const alarm = createRestTimer(signal)
  const withLock = createMutex()

  function inForceOf(model: string): InForce | undefined {
    const found = policies.byModel.get(model)
    if (found === undefined) return undefined
    const { access, limits, server, isServed } = found
    return {
      access: access?.digest ?? '',
      limits: limits?.digest ?? '',
      server,
      envoy: isServed ? deps.envoyOf(model) : 'none',
    }
  }

  function* findChanges(): Generator<void, Map<string, InForce | undefined>> {
    const changes = new Map<string, InForce | undefined>()
    for (const model of policies.byModel.keys()) {
      const now = inForceOf(model)
      if (reported.get(model) !== toText(now)) changes.set(model, now)
      yield
    }
    for (const [model, text] of reported) {
      if (text !== '' && !policies.byModel.has(model)) changes.set(model, undefined)
    }
    return changes
  }

  /** One at a time: an earlier snapshot's policies must not replace those of a later one. */
  const readCurrent = () =>
    withLock(async () => {
      const { snapshot, refused } = deps.state()
      policies = await inSlices(policiesInSteps(snapshot, refused, policies))
      return { snapshot, policies }
    })

  async function report(): Promise<void> {
    await readCurrent()
    // Resets the reports before they contain too many removed models.
    if (reported.size > 2 * policies.byModel.size + 1_000) last = undefined
    if (last === undefined) reported = new Map()
    const changes: InForceChanges = await inSlices(findChanges())
    if (last === undefined) {
      const edition = randomUUID()
      await reportAllInForce(sql, replica, edition, changes)
      last = { edition, revision: 1 }
    } else {
      const known = last
      // Without a response it is unknown whether the report was stored.
      last = undefined
      if (!(await reportChanges(sql, replica, known, changes))) return report()
      last = { ...known, revision: known.revision + (changes.size === 0 ? 0 : 1) }
    }
    for (const [model, now] of changes) reported.set(model, toText(now))
  }

  async function step(): Promise<void> {
    await report()
    reports += 1
    if (reports % purgeEvery === 0) await purgeReports(sql)
  }

  function onFault(error: unknown): void {
    if (!(error instanceof ServiceError)) deps.onFault(error)
  }

  return {
    /** The snapshot in force, with its policies. */
    readCurrent,
    /**
     * Resolves once everything has been reported. Rejects with a ServiceError if the database does not
     * answer; it may then be called again.
     */
    async start(): Promise<void> {
      await report()
      void purgeReports(sql).catch(() => {})
      const restMs = (failures: number) => (failures > 0 ? databaseRetryMs : confirmMs)
      void repeat({ step, restMs, restsFirst: true, onFault, signal, alarm })
    },
    /** Call it when something new may be in force. */
    note: alarm.ring,
    close: (): void => closing.abort(),
  }
}

/** '' is a model that is gone. */
function toText(inForce: InForce | undefined): string {
  if (inForce === undefined) return ''
  const { access, limits, server, envoy } = inForce
  return `${access} ${limits} ${server} ${envoy}`
}

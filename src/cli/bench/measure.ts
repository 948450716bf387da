/** Runs in turn: each round measures every subject once, so that what slows one slows all. */

import { setTimeout as sleep } from 'node:timers/promises'
import { StartError } from '../start-error.ts'
import type { Asking, Case } from './cases.ts'
import type { LoadResult } from './load/plan.ts'
import type { Load } from './load/start-load.ts'
import { cpuMicrosOf } from './process-costs.ts'
import type { Mode, Results, Run } from './results.ts'

/** What requests are sent to, and the processes that serve them where they are on this machine. */
export interface Subject {
  readonly name: string
  readonly url: string
  readonly envoy?: number | undefined
  /** Of the process that Envoy asks. */
  readonly service?: number | undefined
  /** Which cases it is measured with; all unless told. */
  readonly cases?: readonly string[]
}

export interface Measuring {
  readonly cases: readonly Case[]
  readonly subjects: readonly Subject[]
  readonly load: Load
  readonly asking: Asking
  readonly rounds: number
  /** Of a run, in milliseconds. */
  readonly runMs: number
  readonly warmUpMs: number
  readonly connections: number
  readonly perSecond: number
  readonly signal: AbortSignal
  /** Told before each run: how many are over, of how many, and which comes. */
  readonly progress: (over: number, of: number, what: string) => void
}

/** Envoy writes its journal once a second, and the service reads it at once: its share of a run. */
const AFTERMATH_MS = 1_100

/** Rejects with a StartError when requests are refused or fail, as figures of those say nothing. */
export async function measure(measuring: Measuring): Promise<Results> {
  const { cases, subjects, rounds, signal, progress } = measuring
  const cells = cases.flatMap((one) =>
    (['closed', 'open'] as const).map((mode) => ({
      case: one,
      mode,
      subjects: subjects
        .filter((subject) => subject.cases?.includes(one.name) ?? true)
        .map((subject) => ({ subject, runs: [] as Run[] })),
    })),
  )
  const total = rounds * cells.reduce((sum, cell) => sum + cell.subjects.length, 0)
  let over = 0
  for (let round = 0; round < rounds; round += 1) {
    for (const cell of cells) {
      // There and back again: none is always the first.
      const turn = round % 2 === 0 ? cell.subjects : cell.subjects.toReversed()
      for (const { subject, runs } of turn) {
        signal.throwIfAborted()
        progress(over, total, `${cell.case.name}, ${cell.mode}, ${subject.name}`)
        runs.push(await runOnce(measuring, subject, cell.case, cell.mode))
        over += 1
      }
    }
  }
  progress(over, total, '')
  return {
    series: cells.flatMap((cell) =>
      cell.subjects.map(({ subject, runs }) => ({
        case: cell.case.name,
        mode: cell.mode,
        subject: subject.name,
        runs,
      })),
    ),
  }
}

/** Each case against each subject, so that what is compiled and remembered is there. */
export async function warmUp(measuring: Measuring): Promise<void> {
  const { cases, subjects, load, signal, warmUpMs, progress } = measuring
  const pairs = subjects.flatMap((subject) =>
    cases
      .filter((one) => subject.cases?.includes(one.name) ?? true)
      .map((one) => ({ subject, one })),
  )
  for (const [i, { subject, one }] of pairs.entries()) {
    signal.throwIfAborted()
    progress(i, pairs.length, `warming up ${subject.name}`)
    const plan = planOf(measuring, subject, one, 'closed')
    checkServed(subject, await load.run({ ...plan, ms: warmUpMs / pairs.length }))
  }
}

async function runOnce(
  measuring: Measuring,
  subject: Subject,
  one: Case,
  mode: Mode,
): Promise<Run> {
  const { load, signal } = measuring
  const cpu = (pid: number | undefined): number =>
    pid === undefined ? Number.NaN : cpuMicrosOf(pid)
  const before = { envoy: cpu(subject.envoy), service: cpu(subject.service) }
  const result = await load.run(planOf(measuring, subject, one, mode))
  if (subject.service !== undefined) await sleep(AFTERMATH_MS, undefined, { signal })
  checkServed(subject, result)
  return {
    ...result,
    envoyMicros: (cpu(subject.envoy) - before.envoy) / result.answered,
    serviceMicros: (cpu(subject.service) - before.service) / result.answered,
  }
}

function planOf(measuring: Measuring, { url }: Subject, one: Case, mode: Mode) {
  const { asking, connections, perSecond, runMs } = measuring
  return {
    url,
    case: one,
    asking,
    connections,
    ms: runMs,
    perSecond: mode === 'open' ? perSecond : undefined,
  }
}

const reasons: Readonly<Record<string, string>> = {
  400: 'it does not take the request',
  401: 'the key is not known, revoked or expired',
  403: 'the key may not call this model',
  404: 'it serves no such path or model',
  429: 'a limit of the key is spent',
}

function checkServed({ name, url }: Subject, { answered, refused, failed }: LoadResult): void {
  const others = [
    ...Object.entries(refused).map(([status, count]) => ({
      count,
      what: `${count} were answered ${status}${status in reasons ? ` (${reasons[status]})` : ''}`,
    })),
    ...Object.entries(failed).map(([why, count]) => ({ count, what: `${count} failed: ${why}` })),
  ]
  if (others.length === 0 && answered > 0) return
  const total = others.reduce((sum, { count }) => sum + count, answered)
  const said = others.map(({ what }) => what).join('; ') || 'none was answered in time'
  throw new StartError(
    `Of ${total} requests to ${name} (${url}) ${said}. What is measured is requests that are served; nothing is averaged over others.`,
  )
}

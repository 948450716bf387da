/** Alternating runs: each round measures every subject once, so that a slowdown affects all. */

import { setTimeout as delay } from 'node:timers/promises'
import { StartError } from '../../src/runtime/start-error.ts'
import { type Asking, type Case, hugeCase } from './cases.ts'
import type { LoadResult } from './load/plan.ts'
import type { Load } from './load/start-load.ts'
import { cpuMicrosOf, residentBytesOf } from './process-costs.ts'
import { readProbe } from './read-probe.ts'
import type { Mode, Run, Series } from './results.ts'

/** A server to measure, and its processes if they are on this machine. */
export interface Subject {
  readonly name: string
  readonly url: string
  readonly envoy?: number | undefined
  /** The process that Envoy calls. */
  readonly service?: number | undefined
  /** The folder of probe.ts's sockets, in that process and its children. */
  readonly probe?: string
  /** A server that only answers Check: measured only with the first case. */
  readonly isYardstick?: boolean
}

export interface Measuring {
  readonly cases: readonly Case[]
  readonly subjects: readonly Subject[]
  readonly load: Load
  readonly asking: Asking
  readonly rounds: number
  /** Length of a run, in milliseconds. */
  readonly runMs: number
  readonly warmUpMs: number
  readonly connections: number
  readonly perSecond: number
  readonly signal: AbortSignal
  /** Called before each run: the number of finished runs, the total, and the next one. */
  readonly progress: (over: number, of: number, what: string) => void
}

/**
 * What Envoy and the service still write and read of the requests belongs to the run.
 */
const aftermathMs = 1_100
const restMs = 2_000

/**
 * Rejects with a StartError if requests are refused or fail, because their figures mean nothing.
 */
export async function measure(measuring: Measuring): Promise<readonly Series[]> {
  const { cases, subjects, rounds, signal, progress } = measuring
  const cells = cases.flatMap((one) =>
    modesOf(one).map((mode) => ({
      case: one,
      mode,
      subjects: subjects
        .filter((subject) => isMeasured(subject, one, cases))
        .map((subject) => ({ subject, runs: [] as Run[] })),
    })),
  )
  const total = rounds * cells.reduce((sum, cell) => sum + cell.subjects.length, 0)
  const rest = await measureRest(subjects, signal)
  let over = 0
  for (let round = 0; round < rounds; round += 1) {
    for (const cell of cells) {
      // Alternating directions, so that no subject is always first.
      const turn = round % 2 === 0 ? cell.subjects : cell.subjects.toReversed()
      for (const { subject, runs } of turn) {
        signal.throwIfAborted()
        progress(over, total, `${cell.case.name}, ${cell.mode}, ${subject.name}`)
        const restMicros = rest.get(subject.name) ?? 0
        runs.push(await runOnce(measuring, subject, cell.case, cell.mode, restMicros))
        over += 1
      }
    }
  }
  progress(over, total, '')
  return cells.flatMap((cell) =>
    cell.subjects.map(({ subject, runs }) => ({
      case: cell.case.name,
      mode: cell.mode,
      subject: subject.name,
      runs,
    })),
  )
}

/** Idle CPU of servers by subject, in microseconds per millisecond. */
async function measureRest(
  subjects: readonly Subject[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  const serving = subjects.filter(({ service }) => service !== undefined)
  const cpu = (): readonly number[] => serving.map(({ service = 0 }) => cpuMicrosOf(service))
  await delay(aftermathMs, undefined, { signal })
  const before = cpu()
  await delay(restMs, undefined, { signal })
  const after = cpu()
  return new Map(
    serving.map(({ name }, i) => [name, ((after[i] ?? 0) - (before[i] ?? 0)) / restMs]),
  )
}

/** The number of runs. */
export function countRuns({
  cases,
  subjects,
  rounds,
}: Pick<Measuring, 'cases' | 'subjects' | 'rounds'>) {
  const each = cases.map(
    (one) =>
      modesOf(one).length * subjects.filter((subject) => isMeasured(subject, one, cases)).length,
  )
  return rounds * each.reduce((sum, count) => sum + count, 0)
}

/** One huge request at a time is not a rate. */
function modesOf(one: Case): readonly Mode[] {
  return one === hugeCase ? ['closed'] : ['closed', 'open']
}

function isMeasured({ isYardstick = false }: Subject, one: Case, cases: readonly Case[]): boolean {
  return !isYardstick || one === cases[0]
}

/** Sends each case to each subject, so that code is compiled and caches are filled. */
export async function warmUp(measuring: Measuring): Promise<void> {
  const { cases, subjects, load, signal, warmUpMs, progress } = measuring
  const pairs = subjects.flatMap((subject) =>
    cases.filter((one) => isMeasured(subject, one, cases)).map((one) => ({ subject, one })),
  )
  for (const [i, { subject, one }] of pairs.entries()) {
    signal.throwIfAborted()
    progress(i, pairs.length, `warming up ${subject.name}`)
    const plan = planOf(measuring, subject, one, 'closed')
    const ms = Math.min(plan.ms, warmUpMs / pairs.length)
    // A single request first, so that a refusal does not cause a thousand others.
    checkServed(subject, await load.run({ ...plan, connections: 1, ms: 1, perSecond: 1 }))
    checkServed(subject, await load.run({ ...plan, ms }))
  }
}

async function runOnce(
  measuring: Measuring,
  subject: Subject,
  one: Case,
  mode: Mode,
  restMicrosPerMs: number,
): Promise<Run> {
  const { load, signal } = measuring
  const cpu = (pid: number | undefined): number =>
    pid === undefined ? Number.NaN : cpuMicrosOf(pid)
  if (subject.probe !== undefined) await readProbe(subject.probe)
  const before = { envoy: cpu(subject.envoy), service: cpu(subject.service) }
  const result = await load.run(planOf(measuring, subject, one, mode))
  if (subject.service !== undefined) await delay(aftermathMs, undefined, { signal })
  checkServed(subject, result)
  const resident = (pid: number | undefined): number =>
    pid === undefined ? Number.NaN : residentBytesOf(pid)
  return {
    ...result,
    ...(subject.probe !== undefined && { inside: await readProbe(subject.probe) }),
    envoyBytes: resident(subject.envoy),
    serviceBytes: resident(subject.service),
    envoyMicros: (cpu(subject.envoy) - before.envoy) / result.answered,
    serviceMicros:
      one === hugeCase
        ? Number.NaN
        : (cpu(subject.service) - before.service - restMicrosPerMs * aftermathMs) / result.answered,
  }
}

function planOf(measuring: Measuring, { url }: Subject, one: Case, mode: Mode) {
  const { asking, connections, perSecond, runMs } = measuring
  const isHuge = one === hugeCase
  return {
    url,
    case: one,
    asking,
    connections: isHuge ? 1 : connections,
    ms: isHuge ? 1 : runMs,
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

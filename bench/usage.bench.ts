/** What a response costs after it has ended: its line, from text to counters and metrics. */

import { parseJournalLine } from '../src/journal/journal-line.ts'
import { createWindowSums } from '../src/ratelimit/rules/sums.ts'
import { lineUses } from '../src/usage/rules/line-charges.ts'
import { formatSubject, type LineSubject } from '../src/usage/rules/line-head.ts'
import { writeLineHead } from '../test/support/line-head.ts'
import { createBenchSettle, createBenchTelemetry, createSnapshot } from './fixture.ts'
import { bytesPerCall, type Figure, microsPerCall } from './measure.ts'

const users = 1_024
const models = 100
const teams = 16
const prepared = 20_000

export async function benchUsage(): Promise<readonly Figure[]> {
  const snapshot = createSnapshot(models, teams)
  const telemetry = createBenchTelemetry()
  const sums = createWindowSums(new Map(), () => performance.now())
  const settle = createBenchSettle(telemetry)
  const lines = Array.from({ length: prepared }, (_, i) => toLine(i))
  const count = (i: number) => {
    const line = parseJournalLine(lines[i % prepared] as string, 'allow')
    if (line === undefined) throw new Error('no line')
    for (const each of lineUses(line, snapshot)) sums.count(each, Date.now())
    return line
  }
  const tell = (i: number): void => {
    const line = count(i)
    settle.onLine(line)
    settle.onDelivered(line)
  }
  const figures = [
    { name: 'a line, counted', work: count },
    { name: 'a line, counted and told', work: tell },
  ].flatMap(({ name, work }) => [
    { name, value: `${microsPerCall(work, 40_000).toFixed(2)} µs CPU` },
    { name: '  its garbage', value: `${bytesPerCall(work, prepared).toFixed(0)} bytes` },
  ])
  await telemetry.stop()
  return figures
}

/** As the gateway's script writes it. */
function toLine(i: number): string {
  const id = `274679e7-7e02-4a9e-b3f9-${i.toString(16).padStart(12, '0')}`
  const subject: LineSubject = {
    ...{ subscription: `team-${i % teams}`, model: `llm/m${i % models}` },
    ...{ payer: undefined, group: undefined },
  }
  const asked = {
    ...({ startedAt: Date.now(), id, by: 'check', user: `user-${i % users}`, keyId: id } as const),
    ...{ keyCounters: undefined, held: undefined },
  }
  const check = writeLineHead(asked, formatSubject(subject))
  const rest = {
    ...{ metered: true, fb: 3, ms: 4, status: 200, bytes: 700, sent: 1 },
    reported: { total_tokens: 40, prompt_tokens: 30, completion_tokens: 10 },
  }
  return `{"v":1,"check":${check},${JSON.stringify(rest).slice(1)}`
}

if (import.meta.main) {
  for (const { name, value } of await benchUsage()) console.log(`${name.padEnd(40)}  ${value}`)
}

import { join } from 'node:path'
import type { Test } from 'tap'
import { journalFilesOf } from '../../../src/journal/journal-files.ts'
import { type JournalLine, parseJournalLine } from '../../../src/journal/journal-line.ts'
import type { WindowedCounter } from '../../../src/ratelimit/rules/windows.ts'
import { openJournalSums, type SumsOptions } from '../../../src/ratelimit/sums/journal-sums.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import { lasting } from '../../support/window-ends.ts'

export const hour: WindowedCounter = {
  key: 's\nm\n1h\nann',
  owner: lasting('ann'),
  window: { ms: 3_600_000 },
}
let lines = 0

/** A line as the gateway's script writes it, of so many tokens. */
export function lineOf(tokens: number): string {
  lines += 1
  const check = { start: Date.now(), id: `${process.pid}-${lines}`, by: 'check', user: 'ann' }
  const fields = { v: 1, check: { ...check, subscription: 's', model: 'm' }, metered: true }
  const told = { fb: 1, ms: 2, status: 200, bytes: 9, sent: true, flags: '-' }
  return `\n${JSON.stringify({ ...fields, ...told, reported: { total_tokens: tokens } })}\n`
}

export function tokensOf({ usage }: JournalLine): number {
  return Number(usage.reported.get('total_tokens'))
}

/** Where a gateway's files are. */
export interface Places {
  readonly path: string
  readonly dataDir: string
}

export function makePlaces(
  t: Test,
): Places & { readonly files: ReturnType<typeof journalFilesOf> } {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const path = join(folder.path, 'shared', 'usage.jsonl')
  return { path, dataDir: join(folder.path, 'data'), files: journalFilesOf(path) }
}

/** A process of a gateway, with what it has seen, told and complained of. */
export async function openProcess(places: Places, options: Partial<SumsOptions> = {}) {
  const asked: string[] = []
  const told: number[] = []
  const seen: number[] = []
  const problems: string[] = []
  const faults: unknown[] = []
  const sums = await openJournalSums({
    ...{ path: places.path, dataDir: places.dataDir, mode: 0o600, maxBytes: 4_096 },
    ...{ store: undefined, longSums: undefined, tags: ['all'], tagOf: () => 'all' },
    ...{ flushMs: 5, onLoss: 'deny', keptFiles: 1 },
    ...{ now: Date.now, monotonic: () => performance.now() },
    readText: (text) => parseJournalLine(text, 'allow'),
    countedOf: (line) => [
      { at: line.usage.response.endedAt, amount: tokensOf(line), counters: [hour] },
    ],
    onLine: (line) => seen.push(tokensOf(line)),
    onDelivered: (line) => told.push(tokensOf(line)),
    async askEnvoy(path) {
      asked.push(path)
      return path === '/server_info' ? '{}' : 'OK'
    },
    onProblem: (problem, isThere) => problems.push(`${isThere ? '' : 'no '}${problem}`),
    onFault: (error) => faults.push(error),
    onUnavailable: () => {},
    onLost: () => {},
    ...options,
  })
  const used = async () => (await sums.read([hour], Date.now()))[0]?.used
  return { sums, asked, told, seen, problems, faults, used }
}

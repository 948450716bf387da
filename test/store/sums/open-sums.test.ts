import { appendFileSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import type { WindowedCounter } from '../../../src/core/counting/windows.ts'
import { filesOf } from '../../../src/journal/files.ts'
import type { ReadLine } from '../../../src/journal/read-line.ts'
import { openSums } from '../../../src/store/sums/open-sums.ts'
import { poll } from '../../support/poll.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import '../../support/time-limit.ts'

const hour: WindowedCounter = { key: 's\nm\n1h\nann', owner: 'ann', window: { ms: 3_600_000 } }
let lines = 0

/** A line as the gateway's script writes it, of so many tokens. */
export function lineOf(tokens: number): string {
  lines += 1
  const check = { start: Date.now(), id: `r-${lines}`, by: 'check', user: 'ann' }
  const fields = { v: 1, check: { ...check, subscription: 's', model: 'm' }, metered: true }
  const told = { fb: 1, ms: 2, status: 200, bytes: 9, sent: true, flags: '-' }
  return `\n${JSON.stringify({ ...fields, ...told, reported: { total_tokens: tokens } })}\n`
}

function tokensOf({ usage }: ReadLine): number {
  return Number(usage.reported.get('total_tokens'))
}

interface World {
  readonly path: string
  readonly dataDir: string
}

function makeWorld(t: Test): World {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  return { path: join(folder.path, 'shared', 'usage.jsonl'), dataDir: join(folder.path, 'data') }
}

async function open(
  t: Test,
  { path, dataDir }: World,
  options: Partial<Parameters<typeof openSums>[0]> = {},
) {
  const asked: string[] = []
  const told: number[] = []
  const seen: number[] = []
  const problems: string[] = []
  const faults: unknown[] = []
  const sums = await openSums({
    ...{ path, dataDir, mode: 0o600, maxBytes: 4_096, store: undefined, longSums: undefined },
    ...{ tags: ['all'], tagOf: () => 'all', flushMs: 5, onLoss: 'deny', keptFiles: 1 },
    ...{ now: Date.now, monotonic: () => performance.now() },
    countedOf: (line) => [
      { at: line.usage.response.endedAt, amount: tokensOf(line), counters: [hour] },
    ],
    onLine: (line) => seen.push(tokensOf(line)),
    onTold: (line) => told.push(tokensOf(line)),
    async askEnvoy(asks) {
      asked.push(asks)
      return asks === '/server_info' ? '{}' : 'OK'
    },
    onProblem: (problem, isThere) => problems.push(`${isThere ? '' : 'no '}${problem}`),
    onFault: (error) => faults.push(error),
    onUnavailable: () => {},
    onLost: () => {},
    ...options,
  })
  t.teardown(() => sums.stop(0))
  const used = async () => (await sums.read([hour], Date.now()))[0]?.used
  return { sums, asked, told, seen, problems, faults, used }
}

root.test('a journal is opened, written, renamed and opened again', async (t) => {
  const world = makeWorld(t)
  const files = filesOf(world.path)
  const one = await open(t, world)
  t.equal(statSync(files.folder).mode & 0o777, 0o700)
  for (const path of [files.script, files.envoy, files.head]) {
    t.equal(statSync(path).mode & 0o777, 0o600, path)
  }
  appendFileSync(files.script, lineOf(40))
  t.equal(await one.used(), 40, 'a Check knows the last line')
  appendFileSync(files.envoy, lineOf(2))
  await poll(async () => (await one.used()) === 42, 'Envoy’s own log is read as well')
  await poll(() => one.sums.isWriter, 'it writes')
  for (let i = 0; i < 20; i += 1) appendFileSync(files.script, lineOf(1))
  await poll(() => readdirSync(files.folder).some((name) => /jsonl\.\d{13}$/.test(name)), 'renamed')
  t.ok(existsSync(files.script))
  appendFileSync(files.script, lineOf(100))
  await poll(async () => (await one.used()) === 162, 'the next file is read')
  await poll(() => one.asked.includes('/reopen_logs'), 'Envoy opens its log again')
  t.same(
    one.seen.reduce((sum, each) => sum + each, 0),
    162,
  )
  t.equal(await one.sums.stop(1_000), 0)
  t.same(one.told.toSorted(), one.seen.toSorted(), 'each line is told once')
  appendFileSync(files.script, lineOf(1_000))
  const next = await open(t, world)
  t.equal(await next.used(), 1_162)
  await poll(() => next.told.length === 1, 'what came meanwhile is told')
  t.equal(next.sums.name, one.sums.name)
  t.strictSame([...one.faults, ...next.faults, ...one.problems, ...next.problems], [])
  t.match(next.sums.stats, { unreadBytes: 0, failing: false, skipped: 0 })
  t.match(readFileSync(join(world.dataDir, 'journal', 'usage.name'), 'utf8'), next.sums.name)
})

import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import root from 'tap'
import type { journalFilesOf } from '../../../src/journal/journal-files.ts'
import type { SumStore } from '../../../src/ratelimit/sums/sum-store.ts'
import { poll } from '../../support/poll.ts'
import '../../support/time-limit.ts'
import { lineOf, makePlaces, openProcess } from './journal-sums-world.ts'

root.test('a journal is opened, written, renamed and opened again', async (t) => {
  const { files, ...places } = makePlaces(t)
  const one = await openProcess(places)
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
  const next = await openProcess(places)
  t.teardown(() => next.sums.stop(0))
  t.equal(await next.used(), 1_162)
  await poll(() => next.told.length === 1, 'what came meanwhile is told')
  t.equal(next.sums.name, one.sums.name)
  t.strictSame([...one.faults, ...next.faults, ...one.problems, ...next.problems], [])
  t.match(next.sums.stats, { unreadBytes: 0, failing: false, skipped: 0 })
  t.match(readFileSync(join(places.dataDir, 'journal', 'usage.name'), 'utf8'), next.sums.name)
})

root.test('each process knows the last line, whenever files are renamed', async (t) => {
  const { files, ...places } = makePlaces(t)
  const one = await openProcess(places)
  await poll(() => one.sums.isWriter, 'one writes')
  const other = await openProcess(places)
  t.teardown(() => Promise.all([one, other].map(({ sums }) => sums.stop(0))))
  const write = createScript(files)
  let used = 0
  let late = 0
  const renamed = () =>
    readdirSync(files.folder).filter((each) => /jsonl\.\d{13}$/.test(each)).length
  // A file is renamed each second, and by then nothing is watched.
  while (renamed() < 3) {
    write(lineOf(1))
    used += 1
    for (const each of [other, one]) if ((await each.used()) !== used) late += 1
    await delay(1)
  }
  t.equal(late, 0, `${late} of ${used}`)
})

/** Writes lines as the gateway's script does: to the file that is there when it hears of a renaming. */
function createScript({ script, head }: ReturnType<typeof journalFilesOf>): (line: string) => void {
  let [file, renamed] = [-1, -1]
  return (line) => {
    const number = readFileSync(head).readUInt32LE(12)
    if (number !== renamed) {
      if (file >= 0) closeSync(file)
      ;[file, renamed] = [openSync(script, 'a'), number]
    }
    writeSync(file, line)
  }
}

root.test('the place of the version before is found where its journal was', async (t) => {
  const store: SumStore = {
    write: async (_, entries) => ({
      ...{ number: 0, nonce: '' },
      sums: entries.map(({ sum }) => [sum, sum] as const),
    }),
    read: async (keys) => keys.map(() => new Map()),
  }
  for (const [shared, expected] of [
    [store, 2],
    [undefined, 42],
  ] as const) {
    const places = makePlaces(t)
    const before = join(places.dataDir, 'journal', 'usage.jsonl')
    mkdirSync(dirname(before), { recursive: true })
    const counted = lineOf(40)
    writeFileSync(before, counted)
    const { ino } = statSync(before, { bigint: true })
    const place = { inode: String(ino), offset: Buffer.byteLength(counted) }
    writeFileSync(`${before}.position`, JSON.stringify({ places: [place] }))
    appendFileSync(before, lineOf(2))
    const one = await openProcess(places, { store: shared })
    t.equal(await one.used(), expected, 'what the store has of it is not counted again')
    await one.sums.stop(1_000)
  }
})

import {
  appendFileSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import {
  type JournalFile,
  openJournalFile,
  type Place,
} from '../../../src/ratelimit/journal/file.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const [first, second, third] = ['first', 'second', 'third'].map((id) => id.padEnd(60, '.')) as [
  string,
  string,
  string,
]

interface Followed {
  readonly path: string
  readonly file: JournalFile
  readAll(): Promise<string[]>
}

async function follow(t: Test, content: string): Promise<Followed> {
  const path = join(temporaryFolder(t), 'usage.jsonl')
  writeFileSync(path, content)
  return reopen(t, path)
}

async function reopen(t: Test, path: string, places?: readonly Place[]): Promise<Followed> {
  const file = await openJournalFile(path, places)
  t.teardown(() => file.close())
  return {
    path,
    file,
    async readAll() {
      await file.refresh()
      const lines: string[] = []
      do lines.push(...(await file.next()))
      while (!file.atEnd)
      return lines
    },
  }
}

test('each whole line is read once', async (t) => {
  const { path, file, readAll } = await follow(t, `${first}\n${second}\n`)
  t.equal(file.unread, 122)
  t.notOk(file.atEnd, 'nothing has been read yet')
  t.strictSame(await readAll(), [first, second])
  t.strictSame(await readAll(), [])
  appendFileSync(path, `${third}\n`)
  t.strictSame(await readAll(), [third])
  t.equal(file.unread, 0)
})

test('a partial line is read once it is complete', async (t) => {
  const { path, file, readAll } = await follow(t, `${first}\n${second.slice(0, 9)}`)
  t.strictSame(await readAll(), [first])
  t.equal(file.unread, 9)
  t.ok(file.atEnd)
  t.strictSame(await readAll(), [])
  appendFileSync(path, `${second.slice(9)}\n\n${third}`)
  t.strictSame(await readAll(), [second, ''])
})

test('many lines are returned in parts', async (t) => {
  const lines = Array.from({ length: 5_000 }, (_, i) => `${i} ä ${'x'.repeat(i % 300)}`)
  const { file, readAll } = await follow(t, `${lines.join('\n')}\n`)
  await file.refresh()
  const part = await file.next()
  t.ok(part.length < 5_000)
  t.strictSame([...part, ...(await readAll())], lines)
})

test('an overlong line is skipped', async (t) => {
  const long = 'x'.repeat(200_000)
  const { path, file, readAll } = await follow(t, `${first}\n${long}\n${second}\n${long}`)
  t.strictSame(await readAll(), [first, second])
  t.equal(file.overlong, 2)
  appendFileSync(path, `${long}\n${third}\n`)
  t.strictSame(await readAll(), [third])
  t.equal(file.overlong, 2)
})

test('a renamed file is followed', async (t) => {
  const { path, readAll } = await follow(t, `${first}\n`)
  t.strictSame(await readAll(), [first])
  renameSync(path, `${path}.1`)
  appendFileSync(`${path}.1`, `${second}\n`)
  t.strictSame(await readAll(), [second])
  appendFileSync(`${path}.1`, `${third}\n`)
  rmSync(`${path}.1`)
  t.strictSame(await readAll(), [third], 'also once it is deleted')
})

test('a truncated file is read from its beginning', async (t) => {
  const { path, readAll } = await follow(t, `${first}\n${second}\n`)
  await readAll()
  truncateSync(path)
  t.strictSame(await readAll(), [])
  appendFileSync(path, `${third}\n`)
  t.strictSame(await readAll(), [third])
  truncateSync(path)
  appendFileSync(path, `${second}\n${third}\n${first}\n`)
  t.strictSame(await readAll(), [second, third, first], 'even if it is longer by now')
})

test('another file of the same length is read from its beginning', async (t) => {
  const { path, file, readAll } = await follow(t, `${first}\n`)
  t.strictSame(await readAll(), [first])
  const { place } = file
  writeFileSync(path, `${second}\n`)
  // A later time, even if the clock of the file system is coarse.
  utimesSync(path, Date.now() / 1_000, Date.now() / 1_000 + 1)
  t.strictSame(await readAll(), [second])
  t.strictSame(await readAll(), [], 'once')
  t.strictSame(await (await reopen(t, path, [place])).readAll(), [second], 'for a new process too')
})

test('a file that was cut in the middle is read from its beginning', async (t) => {
  const { path, readAll } = await follow(t, `${first}\n${second}\n${third}\n`)
  await readAll()
  truncateSync(path, first.length + 1)
  t.strictSame(await readAll(), [first])
  appendFileSync(path, `${third}\n`)
  t.strictSame(await readAll(), [third])
})

test('a saved position outlasts the process', async (t) => {
  const { path, file, readAll } = await follow(t, `${first}\n${second}\n${third.slice(0, 5)}`)
  await readAll()
  const places = [{ ...file.place, inode: '1' }, JSON.parse(JSON.stringify(file.place))]
  appendFileSync(path, `${third.slice(5)}\n`)
  const again = await reopen(t, path, places)
  t.strictSame(await again.readAll(), [third])
  t.strictSame(
    await (await reopen(t, path, [])).readAll(),
    [first, second, third],
    'without a position everything is read',
  )
})

test('a position of another file is ignored', async (t) => {
  const { path, file, readAll } = await follow(t, `${first}\n${second}\n`)
  await readAll()
  const content = `${third}\n${second}\n${first}\n`
  writeFileSync(path, content)
  const again = await reopen(t, path, [file.place])
  t.equal(again.file.inode, file.inode)
  t.strictSame(await again.readAll(), [third, second, first])
  t.equal(readFileSync(path, 'utf8'), content)
})

test('a missing file is an error', async (t) => {
  await t.rejects(openJournalFile(join(temporaryFolder(t), 'none')), { code: 'ENOENT' })
})

import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { createCopies } from '../../src/journal/copies.ts'
import { listLineFiles, openJournalFolder } from '../../src/journal/journal-folder.ts'
import { mountSmallDisk, skipSmallDisk } from '../support/small-disk.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

const files = ['usage.jsonl', 'usage.envoy.jsonl']

function makeWorld(t: Test, keptIn?: string) {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const [path, keptPath] = [join(folder.path, 'shared'), join(keptIn ?? folder.path, 'kept')]
  mkdirSync(path)
  /** Another process has another one. */
  const begin = () =>
    createCopies({
      folder: openJournalFolder(path),
      path,
      keptPath,
      files,
      same: ['usage.jsonl.name'],
    })
  const textsIn = (where: string): Record<string, string> => {
    const names = readdirSync(where).filter((name) => name.startsWith('usage'))
    return Object.fromEntries(
      names.map((name) => [name, readFileSync(join(where, name), 'latin1')]),
    )
  }
  return {
    ...{ path, keptPath, begin },
    log: (text: string, name = 'usage.jsonl') => appendFileSync(join(path, name), text),
    rename: (to: string) => openJournalFolder(path).renew('usage.jsonl', to),
    there: () => textsIn(path),
    copied: () => textsIn(keptPath),
  }
}

test('a copy has each byte of its file, whatever it is called', async (t) => {
  const { begin, log, rename, there, copied } = makeWorld(t)
  const copies = begin()
  log('\nfirst\n')
  log('\nof envoy\n', 'usage.envoy.jsonl')
  await copies.step()
  t.strictSame(copied(), there())
  log('\nsecond, torn: \xff\x00')
  await copies.step()
  rename('usage.jsonl.1795000000000')
  log('\nthird\n')
  await copies.step()
  t.strictSame(copied(), there())
  const heir = begin()
  log('\nfourth\n')
  rename('usage.jsonl.1795000000001')
  log('\nfifth\n')
  await heir.step()
  await copies.step()
  t.strictSame(copied(), there(), 'two that write write the same')
})

test('a copy whose time was lost is restored under a name that is read', async (t) => {
  const { begin, log, path, keptPath } = makeWorld(t)
  log('\nfirst\n')
  await begin().step()
  rmSync(join(path, 'usage.jsonl'))
  for (const at of [0, -5]) {
    utimesSync(join(keptPath, readdirSync(keptPath)[0] ?? ''), at, at)
    await begin().restore()
    t.match(listLineFiles(openJournalFolder(path), files), [{ size: 7 }])
    for (const name of readdirSync(path)) rmSync(join(path, name))
    renameSync(join(keptPath, readdirSync(keptPath)[0] ?? ''), join(keptPath, 'usage.jsonl'))
  }
})

test('a half-written copy is completed, another file’s is kept aside', async (t) => {
  const { begin, log, path, keptPath, there, copied } = makeWorld(t)
  log('\nfirst\n\nsecond\n')
  await begin().step()
  truncateSync(join(keptPath, 'usage.jsonl'), 9)
  await begin().step()
  t.strictSame(copied(), there())
  rmSync(join(path, 'usage.jsonl'))
  log('\nof a new file\n')
  await begin().step()
  t.equal(copied()['usage.jsonl'], '\nof a new file\n')
  t.same(Object.values(copied()).sort(), ['\nfirst\n\nsecond\n', '\nof a new file\n'])
})

test('of a file that was reset to an earlier state, no later one comes back', async (t) => {
  const { begin, log, path, rename, there, copied } = makeWorld(t)
  const copies = begin()
  log('\nfirst\n')
  await copies.step()
  const earlier = readFileSync(join(path, 'usage.jsonl'))
  log('\nsecond, which is counted\n')
  await copies.step()
  rmSync(join(path, 'usage.jsonl'))
  writeFileSync(join(path, 'usage.jsonl'), earlier)
  log('\nthird\n')
  await copies.step()
  t.strictSame(copied(), there())
  const name = 'usage.jsonl.1795000000000'
  rename(name)
  await copies.step()
  rmSync(join(path, name))
  await copies.remove(name)
  await begin().step()
  t.strictSame(there(), { 'usage.jsonl': '' }, 'the file was removed because its lines are saved')
})

test('a folder that was emptied is filled, one that was not is left', async (t) => {
  const { begin, log, path, keptPath, rename, there, copied } = makeWorld(t)
  log('\nfirst\n')
  rename('usage.jsonl.1795000000000')
  log('\nsecond\n')
  await begin().step()
  const before = there()
  await begin().restore()
  t.strictSame(there(), before, 'nothing was missing')
  for (const name of readdirSync(path)) rmSync(join(path, name))
  writeFileSync(join(path, 'usage.jsonl'), '')
  await Promise.all([begin().restore(), begin().restore()])
  t.same(Object.values(there()).sort(), ['', '\nfirst\n', '\nsecond\n'])
  t.ok(Object.keys(there()).every((name) => name === 'usage.jsonl' || /\.\d{13}$/.test(name)))
  log('\nthird\n')
  await begin().step()
  t.strictSame(copied(), there())
  await begin().restore()
  t.equal(Object.keys(there()).length, 3)
  const [renamed = ''] = Object.keys(there()).filter((name) => name !== 'usage.jsonl')
  await begin().remove(renamed)
  t.notOk(existsSync(join(keptPath, renamed)))
})

test('what is the same in both folders is put back in the one that lost it', async (t) => {
  const { path, keptPath, begin } = makeWorld(t)
  const copies = begin()
  await copies.step()
  t.strictSame(readdirSync(keptPath), [], 'there is none yet')
  writeFileSync(join(path, 'usage.jsonl.name'), 'its name')
  await copies.step()
  for (const lost of [path, keptPath]) {
    rmSync(join(lost, 'usage.jsonl.name'))
    await copies.step()
    t.equal(readFileSync(join(lost, 'usage.jsonl.name'), 'utf8'), 'its name')
  }
})

test('what somebody else has removed is put back while it is known', async (t) => {
  const { begin, log, rename, path, there, copied } = makeWorld(t)
  const copies = begin()
  log('\nfirst\n')
  rename('usage.jsonl.1795000000000')
  log('\nsecond\n')
  await copies.step()
  rmSync(path, { recursive: true })
  await copies.step()
  mkdirSync(path)
  log('', 'usage.envoy.jsonl')
  log('\nthird\n')
  await copies.step()
  t.strictSame(Object.values(there()).toSorted(), ['', '\nfirst\n', '\nsecond\n', '\nthird\n'])
  t.equal(there()['usage.jsonl'], '\nthird\n')
  await copies.step()
  const { 'usage.envoy.jsonl': empty, ...rest } = there()
  t.equal(empty, '')
  t.strictSame(copied(), rest, 'copies go by the names of their files')

  rmSync(join(path, 'usage.jsonl.1795000000000'))
  await begin().step()
  t.equal(there()['usage.jsonl.1795000000000'], '\nfirst\n', 'by another writer, too')
  rmSync(join(path, 'usage.jsonl.1795000000000'))
  await copies.remove('usage.jsonl.1795000000000')
  await copies.step()
  t.notOk('usage.jsonl.1795000000000' in there(), 'what the service removes is gone')
})

test('a file that cannot be restored is a fault, and is restored later', async (t) => {
  const { begin, log, rename, path, there } = makeWorld(t)
  const copies = begin()
  log('\nfirst\n')
  rename('usage.jsonl.1795000000000')
  log('\nsecond\n')
  await copies.step()
  rmSync(join(path, 'usage.jsonl.1795000000000'))
  // In place of its draft.
  const obstacle = join(path, `usage.jsonl.1795000000000.${process.pid}.tmp`)
  mkdirSync(join(obstacle, 'not-empty'), { recursive: true })
  await t.rejects(copies.step())
  await t.rejects(copies.step(), 'as long as it lasts')
  rmSync(obstacle, { recursive: true })
  await copies.step()
  t.equal(there()['usage.jsonl.1795000000000'], '\nfirst\n')
})

test('a step that begins during another one does not mix their bytes', async (t) => {
  const { begin, log, there, copied } = makeWorld(t)
  const copies = begin()
  for (let round = 0; round < 10; round += 1) {
    for (const name of files) log(`${name} ${round} `.repeat(20_000), name)
    const first = copies.step()
    for (const name of files) log('\n', name)
    await Promise.all([first, copies.step()])
    // Not `strictSame`, which would print both.
    for (const name of files) t.ok(copied()[name] === there()[name], `${name}, round ${round}`)
  }
})

test('a copy that a full disk has cut short is completed', { skip: skipSmallDisk }, async (t) => {
  const disk = mountSmallDisk(t)
  const { begin, log, there, copied } = makeWorld(t, disk.path)
  const copies = begin()
  log('\nfirst\n')
  await copies.step()
  log(`${'a'.repeat(150_000)}\n`)
  disk.fill()
  // Room for a part of one write.
  disk.free(8_192)
  await t.rejects(copies.step(), { code: 'ENOSPC' })
  disk.free()
  await copies.step()
  // Not `strictSame`, which would print both.
  t.ok(copied()['usage.jsonl'] === there()['usage.jsonl'], 'it has every byte, at its place')
})

import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { openJournalFolder } from '../../src/journal/journal-folder.ts'
import { createWriterElection, writerSilenceMs } from '../../src/journal/writer-election.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

const name = 'usage.writers'

test('whoever was the last to enter writes', async (t) => {
  const { path, remove } = makeTemporaryFolder()
  t.teardown(remove)
  let aheadMs = 0
  const open = () => createWriterElection(openJournalFolder(path), name, () => Date.now() + aheadMs)
  const [one, other] = [open(), open()]
  t.not(one.nonce, other.nonce)
  t.equal(one.isFree(), true)
  t.equal(one.isLast(), false)
  one.enter()
  t.equal(one.isLast(), true)
  t.equal(other.isFree(), false)
  other.enter()
  t.equal(one.isLast(), false)
  t.strictSame(one.all(), [other.nonce, one.nonce])
  one.leave()
  t.equal(other.isFree(), false, 'it is not its place')
  // The file's time has fractions of a millisecond.
  aheadMs = writerSilenceMs + 1
  t.equal(one.isFree(), true)
  aheadMs = -2 * writerSilenceMs
  t.equal(one.isFree(), true, 'a clock was set back')
  aheadMs = 0
  other.leave()
  t.equal(one.isFree(), true)
  t.equal(other.isLast(), false)
  one.enter()
  t.equal(one.isFree(), false)
  t.equal(one.isLast(), true)
})

test('a list that was removed is begun again by the one that writes', async (t) => {
  const { path, remove } = makeTemporaryFolder()
  t.teardown(remove)
  const open = () => createWriterElection(openJournalFolder(path), name, Date.now)
  const [one, other] = [open(), open()]
  one.enter()
  rmSync(join(path, name))
  t.equal(one.isLast(), true)
  t.equal(other.isLast(), false)
  one.show()
  t.strictSame(other.all(), [one.nonce])
  t.equal(other.isFree(), false)
})

test('a list of writers stays short, and has the latest ones', async (t) => {
  const { path, remove } = makeTemporaryFolder()
  t.teardown(remove)
  const folder = openJournalFolder(path)
  const all = Array.from({ length: 129 }, () => createWriterElection(folder, name, Date.now))
  for (const each of all) each.enter()
  all.at(-1)?.show()
  t.strictSame(
    all[0]?.all(),
    all
      .slice(-64)
      .map(({ nonce }) => nonce)
      .toReversed(),
  )
  all.at(-1)?.show()
  t.equal(readFileSync(join(path, name), 'utf8').split('\n').length, 65)
  t.equal(all.at(-1)?.isLast(), true)
})

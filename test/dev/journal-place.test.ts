import { existsSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { inMemory, journalPlace, takePlace } from '../../dev/journal-place.ts'
import { memoryFolder, temporaryFolder } from '../support/temporary-folder.ts'

test('lines are in memory, where only their user may enter', async (t) => {
  const data = temporaryFolder(t)
  const [place = ''] = inMemory(data, [memoryFolder(t)])
  t.equal(journalPlace(data, [place]), place)
  t.equal(statSync(place).mode & 0o777, 0o700)
  t.equal(journalPlace(data, [place]), place, 'each time')
  const [other] = inMemory(temporaryFolder(t), ['/dev/shm'])
  t.not(other, inMemory(data, ['/dev/shm'])[0], 'each data folder has its own')
})

test('a place that others could have made is not taken', async (t) => {
  const data = temporaryFolder(t)
  const own = join(data, 'journal')
  const [parent, elsewhere] = [memoryFolder(t), memoryFolder(t)]
  const [place = ''] = inMemory(data, [parent])
  symlinkSync(elsewhere, place)
  t.equal(journalPlace(data, [place]), own, 'a link')
  rmSync(place)
  mkdirSync(place, { mode: 0o755 })
  t.equal(journalPlace(data, [place]), own, 'a folder that others can enter')
  rmSync(place, { recursive: true })
  writeFileSync(place, '')
  t.equal(journalPlace(data, [place]), own, 'a file')
  t.equal(journalPlace(data, inMemory(data, ['/proc', join(data, 'none')])), own, 'none at all')
})

test('lines that outlived their data folder are forgotten', async (t) => {
  const data = temporaryFolder(t)
  const ours = inMemory(data, [memoryFolder(t)])
  const file = join(journalPlace(data, ours), 'usage.jsonl')
  const [place = ''] = ours
  const lives = () => {
    writeFileSync(file, 'a line')
    takePlace(data, place, 0o770, ours)
    return existsSync(file)
  }
  t.equal(lives(), false)
  t.equal(lives(), true, 'not at the next start')
  t.equal(statSync(place).mode & 0o777, 0o770)
  t.equal(journalPlace(data, ours), place)
  rmSync(join(data, 'journal'), { recursive: true })
  takePlace(data, place, 0o770, [])
  t.ok(existsSync(file), 'never of a folder that a setting names')
  t.equal(lives(), false)
})

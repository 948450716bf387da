import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ensureJournalName } from '../../../src/usage/ledger/journal-name.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

t.test('a journal keeps its name', async (t) => {
  const path = join(temporaryFolder(t), 'new', 'usage.jsonl')
  const name = ensureJournalName(path)
  t.match(name, /^[0-9a-f]{16}$/)
  t.equal(ensureJournalName(path), name)
  t.strictSame(readdirSync(join(path, '..')), ['usage.jsonl.name'], 'no other file is left')
})

t.test('another journal has another name', async (t) => {
  const [one, two] = [temporaryFolder(t), temporaryFolder(t)]
  t.not(ensureJournalName(join(one, 'usage.jsonl')), ensureJournalName(join(two, 'usage.jsonl')))
})

t.test('an invalid name is reported', async (t) => {
  const path = join(temporaryFolder(t), 'usage.jsonl')
  writeFileSync(`${path}.name`, 'half')
  t.throws(() => ensureJournalName(path), /remove it/)
})

import { spawnSync } from 'node:child_process'
import { createReadStream, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { createEndedKeysWriter } from '../../../src/keys/revocations/ended-keys-writer.ts'
import { createKnownEnds } from '../../../src/keys/revocations/known-ends.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('a disk that hangs counts as failing', async (t) => {
  const path = join(temporaryFolder(t), 'revocations-a.jsonl')
  const known = createKnownEnds(Date.now)
  const told: unknown[] = []
  const file = createEndedKeysWriter(path, known, (error) => void told.push(error), 100)
  t.equal(await file.write(), true)
  t.strictSame([file.isFailing, told], [false, []])
  rmSync(path)
  // Opening a pipe waits for its reader.
  if (spawnSync('mkfifo', [path]).status !== 0) return t.comment('no mkfifo')
  known.note([{ id: 'a', hash: 'a', at: Date.now(), endsAt: null, expiresAt: null }])
  const writing = file.write()
  await poll(() => file.isFailing, 'it fails')
  t.match(told, [{ message: 'the disk does not respond' }])
  createReadStream(path).resume()
  await writing
  // A pipe cannot be synced, unlike a file that is written at last.
  rmSync(path)
  t.equal(await file.write(), true)
  t.strictSame([file.isFailing, told.at(-1)], [false, undefined])
})

import { utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { watchFiles } from '../../src/runtime/watch-files.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a rewrite of equal size that keeps the time of the write is another state', async (t) => {
  const path = join(temporaryFolder(t), 'tokens')
  const save = (text: string): void => {
    writeFileSync(path, text)
    utimesSync(path, 1, 1)
  }
  save('ada')
  const states: string[] = []
  const watch = watchFiles([path], 10, (signature) => void states.push(signature))
  t.teardown(() => watch.close())
  await poll(() => states.length > 2, 'the first states')
  t.equal(new Set(states).size, 1)
  save('bob')
  await poll(() => new Set(states).size > 1, 'another state')
})

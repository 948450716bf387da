import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { createSecretFiles } from '../../src/gateway/secret-files.ts'
import { secretFolder } from '../../src/gateway/secret-location.ts'
import { modelRef, snapshotOf } from '../support/documents.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a secret that was removed is written again', async (t) => {
  const directory = temporaryFolder(t)
  const files = createSecretFiles({
    directory,
    read: async () => ({ text: 'secret' }),
    onProblem: (problem) => t.fail(problem),
    onFault: (error) => t.fail(String(error)),
  })
  t.teardown(() => files.close())
  const credential = { file: 'key' }
  await files.write(snapshotOf(modelRef('a', { credential })))
  const folder = secretFolder(directory)
  const [name = ''] = readdirSync(folder)
  const path = join(folder, name)
  for (const gone of [path, folder]) {
    rmSync(gone, { recursive: true })
    await poll(() => existsSync(path), 'it is back')
    t.equal(statSync(path).mode & 0o777, 0o600)
    t.equal(statSync(folder).mode & 0o777, 0o700)
  }
})

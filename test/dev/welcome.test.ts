import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { readUpSettings } from '../../dev/up-settings.ts'
import { welcome } from '../../dev/welcome.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a shell reads the folder as it is', async (t) => {
  const dataDir = join(temporaryFolder(t), "it's $HOME here")
  mkdirSync(dataDir)
  const settings = readUpSettings({ DATA_DIR: dataDir }, () => [])
  const shown = { settings, resourceFolder: 'a', modelServerAddress: undefined, tries: [] }
  const text = welcome({ ...shown, code: undefined, isVerbose: false })
  const [, folder] = /^To look at +(DATA_DIR=.*) bin\/tollgate demo$/m.exec(text) ?? []
  const script = `${folder} printenv DATA_DIR`
  t.equal(execFileSync('sh', ['-c', script], { encoding: 'utf8' }), `${dataDir}\n`)
})

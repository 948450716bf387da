import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { packageRoot, readVersion } from '../../src/runtime/package-root.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runCommand } from '../support/tollgate.ts'
import { paste, tryLines } from '../support/try-lines.ts'

const skip = envoyPath() === undefined && 'no Envoy'

test('the package runs without a clone, up included', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const { PATH, HOME } = process.env
  const env: NodeJS.ProcessEnv = { PATH, HOME }
  execFileSync('npm', ['pack', '--pack-destination', folder], {
    cwd: packageRoot,
    env,
    stdio: 'ignore',
  })
  const [archive = ''] = readdirSync(folder)
  t.match(archive, /^tollgate-tollgate-\d/)
  // Installed as a dependency, without asking a registry.
  const installed = join(folder, 'empty', 'node_modules', '@tollgate', 'tollgate')
  mkdirSync(installed, { recursive: true })
  execFileSync('tar', ['-xzf', join(folder, archive), '-C', installed, '--strip-components=1'])
  symlinkSync(join(packageRoot, 'node_modules'), join(installed, 'node_modules'))
  const settings = await ownSettings(join(folder, 'data'))
  const options = { env: { ...env, ...settings }, cwd: join(folder, 'empty') }
  const run = (...args: string[]) => {
    const line = [process.execPath, join(installed, 'bin', 'tollgate.js'), ...args]
    return runCommand(t, line, options, join(folder, 'data'))
  }
  const version = run('--version')
  t.equal(await version.ended, 0)
  t.equal(version.output(), `${readVersion()}\n`)
  const up = run('up')
  await up.until('Ctrl-C stops everything.')
  t.match(up.output(), / tollgate demo$/m)
  t.match(up.output(), /^tollgate up --verbose shows/m)
  t.notMatch(up.output(), /bin\/tollgate|npm start/, 'what only a clone has')
  t.strictSame(tryLines(up.output()).map(paste), [200, 403, 429])
  t.notOk(readdirSync(packageRoot).includes('lib'), 'packing leaves nothing behind')
})

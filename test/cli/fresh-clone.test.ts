import { chmodSync, cpSync, mkdirSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { test } from 'tap'
import { identify } from '../../dev/process-identity.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { databaseHome, ownSettings, processesOf, runCommand } from '../support/tollgate.ts'
import { paste, tryLines } from '../support/try-lines.ts'

const WITHIN_MS = 30_000

// The parts of a clone that `npm start` needs.
const CLONED = [
  '.npmrc',
  'bin',
  'console/dist',
  'dev',
  'envoy',
  'examples',
  'package.json',
  'package-lock.json',
  'src',
]

test('npm start suffices in a private fresh clone', async (t) => {
  const folder = temporaryFolder(t)
  const clone = join(folder, 'clone')
  for (const part of CLONED) {
    cpSync(join(packageRoot, part), join(clone, part), { recursive: true })
  }
  chmodSync(clone, 0o700)
  mkdirSync(join(folder, 'home'), { mode: 0o700 })
  const dataDir = join(clone, '.data')
  const { ENVOY_PATH, DATA_DIR, ...addresses } = await ownSettings(dataDir)
  const env = { ...bareEnvironment(), HOME: join(folder, 'home'), ...caches(), ...addresses }
  const npm = runCommand(t, ['npm', 'start'], { env, cwd: clone }, dataDir)
  await npm.until('Ctrl-C stops everything.')
  t.match(npm.output(), 'Installing packages')
  t.strictSame(tryLines(npm.output()).map(paste), [200, 403, 429])

  const home = databaseHome(dataDir)
  if (home.startsWith('/var/lib/')) t.teardown(() => rmSync(home, { recursive: true }))
  const processes = Object.values(processesOf(dataDir))
  t.equal(processes.length, 4)
  // After SIGKILL, npm cannot signal its script.
  npm.signal('SIGKILL')
  await poll(() => !processes.some(identify), 'all processes end with npm', WITHIN_MS)
})

/** The caches of this machine: a new home would download everything again. */
function caches(): NodeJS.ProcessEnv {
  const { npm_config_cache, PIP_CACHE_DIR, XDG_CACHE_HOME } = process.env
  return {
    npm_config_cache: npm_config_cache ?? join(homedir(), '.npm'),
    PIP_CACHE_DIR: PIP_CACHE_DIR ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'pip'),
  }
}

/**
 * The environment without the variables of npm and tap, and without the packages' programs on PATH.
 */
function bareEnvironment(): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {}
  for (const [name, value] of Object.entries(process.env)) {
    if (!/^(npm_(?!config_registry)|NODE|TAP|_TAP|CI$|ENVOY_PATH|DATA_DIR)/i.test(name)) {
      env[name] = value
    }
  }
  const folders = (env.PATH ?? '').split(':')
  env.PATH = folders.filter((entry) => !entry.includes('node_modules')).join(':')
  return env
}

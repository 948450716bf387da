import { execFileSync } from 'node:child_process'
import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { checkDataDir } from '../../src/settings/check-files.ts'
import { ConfigError, loadConfig } from '../../src/settings/config.ts'
import { checkSettings } from '../../src/wiring/check-settings.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skipProc = process.platform !== 'linux' && 'no /proc'

function problemsOf(env: Record<string, string>, check = checkSettings): readonly string[] {
  try {
    loadConfig(env, check)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

/** Settings of a service whose files all exist. */
function goodSettings(t: Test): Record<string, string> & { folder: string } {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'resources'))
  writeFileSync(join(folder, 'tokens.csv'), '')
  return {
    folder,
    DATA_DIR: join(folder, 'data'),
    RESOURCES: `file:${folder}/resources`,
    TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
    USAGE_JOURNAL: join(folder, 'a', 'b', 'usage.jsonl'),
  }
}

test('usable files are accepted and missing folders are created', async (t) => {
  const { folder, ...env } = goodSettings(t)
  t.strictSame(problemsOf(env), [])
  t.strictSame(problemsOf(env), [], 'again, now that they exist')
  t.strictSame(readdirSync(join(folder, 'data')), [], 'no trial file is left')
  const modeOf = (...path: string[]) => statSync(join(folder, ...path)).mode & 0o777
  t.equal(modeOf('a', 'b'), 0o770, 'also for the user of Envoy')
  const own = { ...env, UNIX_SOCKET_MODE: '600', USAGE_JOURNAL: join(folder, 'c', 'usage.jsonl') }
  t.strictSame(problemsOf(own), [])
  t.equal(modeOf('c'), 0o700)
})

test('a trial file of another process with the same number is none of ours', async (t) => {
  const { folder: _, ...env } = goodSettings(t)
  // Two processes in two containers: the file of one of them is there, and the other must not remove it.
  mkdirSync(join(env.DATA_DIR ?? '', `.tollgate-${process.pid}`), { recursive: true })
  t.strictSame(problemsOf(env), [])
})

test('a file of authorities must have certificates', async (t) => {
  const { folder, ...env } = goodSettings(t)
  const files = { OIDC_CA_FILE: join(folder, 'tokens.csv'), BACKEND_CA_FILE: join(folder, 'none') }
  t.strictSame(problemsOf({ ...env, ...files }), [
    `BACKEND_CA_FILE: ${folder}/none cannot be read (ENOENT)`,
    `OIDC_CA_FILE: ${folder}/tokens.csv holds no certificate in PEM, or one that cannot be read`,
  ])
})

test('every unusable file is reported together with the bad settings', async (t) => {
  const { folder } = goodSettings(t)
  const file = join(folder, 'tokens.csv')
  const env = {
    API_ADDRESS: 'nowhere',
    DATA_DIR: join(file, 'data'),
    RESOURCES: `file:${folder}/missing`,
    TOKEN_AUTH_FILE: join(folder, 'missing.csv'),
    USAGE_JOURNAL: join(folder, 'resources'),
    ENVOY_CONFIG_DIR: file,
  }
  t.strictSame(problemsOf(env), [
    'API_ADDRESS: must be host:port or unix:/path, is "nowhere"',
    `RESOURCES: ${folder}/missing cannot be read (ENOENT)`,
    `TOKEN_AUTH_FILE: ${folder}/missing.csv cannot be read (ENOENT)`,
    `DATA_DIR: ${file}/data cannot be written to (ENOTDIR)`,
    `ENVOY_CONFIG_DIR: ${file} cannot be written to (ENOTDIR)`,
    `USAGE_JOURNAL: ${folder}/resources cannot be written (EISDIR)`,
  ])
  t.match(
    problemsOf({ RESOURCES: 'nonsense' }),
    [/^RESOURCES: must be/],
    'a problem is reported once',
  )
})

test('a pipe is no file of tokens: it is read again', async (t) => {
  const { folder, ...env } = goodSettings(t)
  const TOKEN_AUTH_FILE = join(folder, 'pipe')
  execFileSync('mkfifo', [TOKEN_AUTH_FILE])
  const writer = openSync(TOKEN_AUTH_FILE, constants.O_RDWR | constants.O_NONBLOCK)
  t.teardown(() => closeSync(writer))
  writeSync(writer, 'a,ada,1\n')
  t.strictSame(problemsOf({ ...env, TOKEN_AUTH_FILE }), [
    `TOKEN_AUTH_FILE: ${TOKEN_AUTH_FILE} cannot be read (a pipe can be read only once)`,
  ])
})

test('a folder below /proc is refused without hanging', { skip: skipProc }, async (t) => {
  const { folder, ...env } = goodSettings(t)
  for (const [name, written] of [
    ['DATA_DIR', '/proc/tollgate'],
    ['USAGE_JOURNAL', '/proc/tollgate/deep/usage.jsonl'],
    ['ENVOY_CONFIG_DIR', '/proc/1/tollgate'],
  ] as const) {
    t.match(problemsOf({ ...env, [name]: written }), [new RegExp(`^${name}: ${written} cannot`)])
  }
  t.match(problemsOf({ ...env, DATA_DIR: '/proc/tollgate' }, checkDataDir), [/^DATA_DIR/])
  t.ok(folder)
})

test('a data folder that no part needs is not checked', async (t) => {
  const { folder, ...env } = goodSettings(t)
  const elsewhere = {
    ENVOY_CONFIG_DIR: join(folder, 'envoy'),
    REVOCATION_LOG_DIR: join(folder, 'log'),
    DATABASE_URL: 'postgres://host/db',
  }
  t.strictSame(problemsOf({ ...env, ...elsewhere, DATA_DIR: '/dev/null/data' }), [])
  t.match(problemsOf({ ...env, ...elsewhere, REVOCATION_LOG_DIR: '/dev/null/log' }), [
    /^REVOCATION_LOG_DIR: .* \(ENOTDIR\)/,
  ])
})

test('Envoy’s files are tested in the folder where they are written', async (t) => {
  const { folder, ...env } = goodSettings(t)
  const anyPort = { ...env, GRPC_ADDRESS: '127.0.0.1:0' }
  t.strictSame(problemsOf(anyPort), [])
  t.match(problemsOf({ ...anyPort, ENVOY_CONFIG_WRITE: 'true' }), [/^GATEWAY_GRPC_ENDPOINTS: /])
  const tls = {
    GATEWAY_TLS_CERT_FILE: join(folder, 'no'),
    GATEWAY_TLS_KEY_FILE: join(folder, 'no'),
  }
  t.match(problemsOf({ ...env, ...tls, ENVOY_CONFIG_WRITE: 'true' }), [/^GATEWAY_TLS_CERT_FILE: /])
  // Lists of models need it, but not the key.
  t.strictSame(problemsOf({ ...env, ...tls }), [
    `GATEWAY_TLS_CERT_FILE: ${folder}/no cannot be read (ENOENT)`,
  ])
})

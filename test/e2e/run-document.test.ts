import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { createDatabase } from '../support/database.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { startModelServer } from '../support/model-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const units = join(packageRoot, 'systemd')
const lacking = ['git', 'npm', 'curl', 'openssl'].filter(
  (command) => spawnSync('which', [command]).status !== 0,
)
const skip =
  (envoyPath() === undefined && 'no Envoy') ||
  (lacking.length > 0 && `no ${lacking.join()}`) ||
  (!existsSync(join(packageRoot, '.git')) && 'no clone')

/** Two instances of tollgate@; an instance is the first digits of its four ports. */
async function freeInstances(): Promise<readonly [string, string]> {
  for (;;) {
    const [first = 0] = await freePorts(1)
    const base = Math.floor(first / 100)
    if (base > 100 && base < 640) return [`${base}`, `${base + 1}`]
  }
}

/** Reads the settings of a unit's [Service]: `Key=value` lines, with repetitions. */
function readUnit(file: string, instance: string, replace: (text: string) => string) {
  const lines = replace(readFileSync(join(units, file), 'utf8'))
    .replaceAll('%i', instance)
    .split('\n')
  const all = (key: string) =>
    lines.filter((line) => line.startsWith(`${key}=`)).map((line) => line.slice(key.length + 1))
  const files = all('EnvironmentFile').map((path) => readFileSync(path, 'utf8').split('\n'))
  const variables = [...all('Environment').flatMap((line) => line.split(' ')), ...files.flat()]
  const env = Object.fromEntries(
    variables
      .filter((line) => /^\w+=/.test(line))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
  return { env, before: all('ExecStartPre'), start: all('ExecStart')[0] ?? '' }
}

/** Starts a unit as systemd would. */
function startUnit(t: Test, unit: ReturnType<typeof readUnit>, path: string): () => string {
  const { HOME } = process.env
  const env = { ...unit.env, PATH: path, HOME }
  for (const line of unit.before) execFileSync('sh', ['-c', line], { env, stdio: 'ignore' })
  const [command = '', ...args] = unit.start.split(' ')
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
  }
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return () => {
    const ofChild = spawnSync('ps', ['--ppid', String(child.pid), '-o', 'pid=']).stdout
    return `${ofChild ?? ''}`.trim() === '' ? log : `${log}\nit has processes of its own`
  }
}

t.test("docs/run.md leads from an empty folder to a model's response", { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const model = await startModelServer(t)
  const database = await createDatabase(t)
  const [first, second] = await freeInstances()
  const [gateway = 0] = await freePorts(1)
  const replace = (text: string): string =>
    text
      .replaceAll(
        /\/(opt|etc|var|usr|run)\/(tollgate|lib\/tollgate|envoy|local\/bin)/g,
        `${folder}/$1/$2`,
      )
      .replaceAll(/127\.0\.0\.1:80(8\d)/g, `127.0.0.1:${first}$1`)
      .replaceAll(/127\.0\.0\.1:81(8\d)/g, `127.0.0.1:${second}$1`)
      .replaceAll(/(127\.0\.0\.1|0\.0\.0\.0):8000/g, `127.0.0.1:${gateway}`)
      .replaceAll('http://127.0.0.1:9000', model.url)
      .replaceAll(/postgres:\/\/tollgate:\S+(?=')/g, database)
      .replaceAll(/^REDIS_URL=.*$/gm, '')
  for (const each of ['opt', 'var/lib', 'etc', 'usr/local/bin']) {
    mkdirSync(join(folder, each), { recursive: true })
  }
  const document = readFileSync(join(packageRoot, 'docs', 'run.md'), 'utf8')
  const blocks = [...document.matchAll(/^```(sh|console)\n(.*?)^```$/gms)]
  const path = `${join(folder, 'usr/local/bin')}:${process.env.PATH}`
  // One shell, because later blocks use variables of earlier ones.
  const done: string[] = []
  const { HOME } = process.env
  const shell = spawn('sh', ['-e'], {
    cwd: folder,
    env: {
      PATH: path,
      HOME,
      REPOSITORY: packageRoot,
      // Cached packages need not be requested.
      npm_config_prefer_offline: 'true',
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const over = once(shell, 'exit')
  t.teardown(() => shell.kill('SIGKILL'))
  let output = ''
  for (const stream of [shell.stdout, shell.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const run = async (commands: string): Promise<void> => {
    const mark = `block ${done.push(commands)} is done`
    shell.stdin.write(`${commands}\necho; echo '${mark}'\n`)
    for (;;) {
      if (output.includes(mark)) return
      const [code] = await Promise.race([over, once(shell.stdout, 'data').then(() => [undefined])])
      if (code !== undefined) throw new Error(`status ${code} of:\n${commands}\n${output}`)
    }
  }
  const logs: (() => string)[] = []
  t.teardown(() => {
    if (!t.passing()) for (const log of logs) t.comment(log())
  })
  for (const [, kind, commands = ''] of blocks) {
    if (kind === 'sh') {
      await run(replace(commands))
      // The file in the clone has the paths of a real installation.
      if (commands.includes('tollgate.env /etc')) {
        const shared = join(folder, 'etc/tollgate/tollgate.env')
        writeFileSync(shared, replace(readFileSync(shared, 'utf8')))
      }
    } else if (commands.includes('systemctl enable')) {
      for (const [, name = '', instance = ''] of commands.matchAll(
        /(tollgate-envoy|tollgate@)(8[01])?(?= |$)/gm,
      )) {
        const own = instance === '80' ? first : second
        const unit = readUnit(`${name}.service`, own, replace)
        // Its EnvironmentFile is the copy that the document's commands installed.
        logs.push(startUnit(t, unit, path))
      }
      t.equal(logs.length, 3)
    }
  }
  t.match(output, /"choices"/, 'the model has responded')
  for (const log of logs) t.notMatch(log(), /processes of its own/)
  shell.stdin.end()
  t.strictSame(await over, [0, null])
  const kept = readdirSync(join(folder, 'var/lib/tollgate')).filter((file) =>
    /^revocations-/.test(file),
  )
  t.ok(kept.length >= 2, 'each process has its own file')
})

const noVerify = spawnSync('systemd-analyze', ['--version']).status !== 0 && 'no systemd-analyze'

t.test('systemd accepts the units', { skip: noVerify }, async (t) => {
  const folder = temporaryFolder(t)
  const command = join(folder, 'command')
  writeFileSync(command, '#!/bin/sh\n')
  chmodSync(command, 0o755)
  for (const file of readdirSync(units).filter((name) => name.endsWith('.service'))) {
    // The commands are not installed where the units expect them.
    const text = readFileSync(join(units, file), 'utf8').replaceAll(
      /^(Exec\w+=)\S+/gm,
      `$1${command}`,
    )
    const path = join(folder, file)
    writeFileSync(path, text)
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', path], {
      encoding: 'utf8',
    })
    t.equal(status, 0, `${file} ${stderr}`)
    t.notMatch(stderr, new RegExp(file), file)
  }
})

const noLogrotate = spawnSync('logrotate', ['--version']).status !== 0 && 'no logrotate'

t.test('logrotate accepts the configuration', { skip: noLogrotate }, async (t) => {
  const folder = temporaryFolder(t)
  const text = readFileSync(join(units, 'logrotate.conf'), 'utf8')
  const path = join(folder, 'logrotate.conf')
  // The user does not exist here, and only root may switch users.
  writeFileSync(path, text.replace(/^ *su .*$/m, ''), { mode: 0o644 })
  const { status, stderr } = spawnSync('logrotate', ['--debug', path], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  t.notMatch(stderr, /error/)
  t.ok(dirname(path))
})

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import {
  installPackages,
  lacksNode,
  lacksPostgres,
  needsInstall,
  nodePackage,
  postgresPackage,
} from '../../bin/install.js'
import { identify, isRunning, readIfThere } from '../../dev/process-identity.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const LOCKED = {
  '': { version: '1.0.0' },
  'node_modules/used': { version: '1.2.3' },
  'node_modules/for-tests': { version: '2.0.0', dev: true },
  'node_modules/for-another-platform': { version: '3.0.0', optional: true },
}
const { '': _root, ...ALL } = LOCKED

function clone(t: Test, installed?: object, locked: object | undefined = LOCKED): string {
  const root = temporaryFolder(t)
  mkdirSync(join(root, 'node_modules'))
  if (locked !== undefined) write(join(root, 'package-lock.json'), locked)
  if (installed !== undefined) write(join(root, 'node_modules', '.package-lock.json'), installed)
  return root
}

function write(path: string, packages: object): void {
  writeFileSync(path, JSON.stringify({ packages }))
}

test('packages are installed if they differ from the lockfile', async (t) => {
  const used = { 'node_modules/used': { version: '1.2.3' } }
  for (const [name, installed, dev, expected] of [
    ['nothing installed', undefined, false, true],
    ['all packages', ALL, true, false],
    ['without the packages for tests', used, false, false],
    ['without the packages for tests, to run tests', used, true, true],
    ['another version', { ...ALL, 'node_modules/used': { version: '1.2.4' } }, false, true],
    ['one package is missing', {}, false, true],
  ] as const) {
    t.equal(needsInstall(clone(t, installed), { dev }), expected, name)
  }
})

test('a Tollgate that is not a clone installs nothing', async (t) => {
  const root = join(clone(t), 'node_modules', 'tollgate')
  mkdirSync(root)
  write(join(root, 'package-lock.json'), LOCKED)
  t.equal(needsInstall(root, { dev: false }), false, 'as a dependency')
  t.equal(needsInstall(temporaryFolder(t), { dev: false }), false, 'without a lockfile')
})

test('without npm there is an error that says so', async (t) => {
  const { PATH } = process.env
  t.teardown(() => {
    process.env.PATH = PATH
  })
  process.env.PATH = temporaryFolder(t)
  const log: string[] = []
  const options = { dev: false, log: (line: string) => log.push(line) }
  await t.rejects(installPackages(clone(t), options), { message: /^npm is not on PATH/ })
  t.match(log, [/^Installing packages/])
})

test('packages for tests are installed for tests, and stay', async (t) => {
  const { PATH } = process.env
  t.teardown(() => {
    process.env.PATH = PATH
  })
  process.env.PATH = temporaryFolder(t, { npm: '#!/bin/sh\necho "$@" > asked' })
  chmodSync(join(process.env.PATH, 'npm'), 0o755)
  const older = { ...ALL, 'node_modules/used': { version: '1.2.2' } }
  const withoutTests = { 'node_modules/used': { version: '1.2.2' } }
  for (const [name, installed, dev, expected] of [
    ['nothing was installed', undefined, false, '--omit=dev'],
    ['nothing was installed, to run tests', undefined, true, '--include=dev'],
    ['they were not there', withoutTests, false, '--omit=dev'],
    ['they were there', older, false, '--include=dev'],
  ] as const) {
    const root = clone(t, installed)
    await installPackages(root, { dev, log() {} })
    t.match(readFileSync(join(root, 'asked'), 'utf8'), `ci ${expected} --include=optional`, name)
  }
})

/** A clone whose optional packages are not installed, and an npm that installs with these lines. */
function program(t: Test, npm: readonly string[], locked: object) {
  const used = { 'node_modules/used': { version: '1.2.3' } }
  const root = clone(t, used, { ...used, ...locked })
  cpSync(join(packageRoot, 'bin'), join(root, 'bin'), { recursive: true })
  mkdirSync(join(root, 'src', 'cli'), { recursive: true })
  writeFileSync(join(root, 'src', 'cli', 'main.js'), "console.log('it runs')")
  writeFileSync(join(root, 'package.json'), '{"type":"module"}')
  const path = temporaryFolder(t)
  const lines = ['#!/bin/sh', `echo npm >> ${root}/runs`, ...npm]
  writeFileSync(join(path, 'npm'), lines.join('\n'), { mode: 0o755 })
  return {
    root,
    args: [join(root, 'bin', 'tollgate.js')],
    env: { PATH: `${path}:/nowhere` },
    runs: () => readFileSync(join(root, 'runs'), 'utf8').split('\n').length - 1,
  }
}

test('a Node that an interrupted installation has left out is installed', async (t) => {
  const folder = `node_modules/${nodePackage}`
  const optional = { [folder]: { version: '24.0.0', optional: true } }
  const start = (npm: readonly string[], locked: object = optional) => {
    const { root, args, env, runs } = program(t, npm, locked)
    const old =
      "data:text/javascript,Object.defineProperty(process.versions,'node',{value:'20.1.0'})"
    const run = () => {
      const { stdout, stderr, status } = spawnSync(process.execPath, ['--import', old, ...args], {
        env,
        encoding: 'utf8',
      })
      return { stdout, stderr, status }
    }
    return { root, run, runs }
  }
  const bin = `${folder}/bin`
  const good = start([
    `/bin/mkdir -p ${bin}`,
    `echo '{}' > ${folder}/package.json`,
    `/bin/ln -s ${process.execPath} ${bin}/node`,
  ])
  t.ok(lacksNode(good.root))
  t.match(good.run(), { status: 0, stdout: 'it runs\n', stderr: /^Installing packages/ })
  t.notOk(lacksNode(good.root))
  t.match(good.run(), { status: 0, stdout: 'it runs\n', stderr: '' })
  t.equal(good.runs(), 1, 'once')

  const away = start([':'])
  const said = new RegExp(`this is Node 20.1.0, and npm could not fetch ${nodePackage}`)
  t.match(away.run(), { status: 1, stderr: said })
  t.match(away.run(), { status: 1, stderr: said })
  t.equal(away.runs(), 2, 'it is tried again with each start')

  const foreign = start([':'], {})
  t.match(foreign.run(), { status: 1, stderr: /no package for \S+ brings a newer one/ })
  t.throws(() => foreign.runs(), 'nothing to install')
})

test('the command of a clone installs what is missing, the Node of its packages included', async (t) => {
  const folder = `node_modules/${nodePackage}`
  const { root, env, runs } = program(
    t,
    [
      `/bin/mkdir -p ${folder}/bin`,
      `echo '{}' > ${folder}/package.json`,
      `/bin/ln -s ${process.execPath} ${folder}/bin/node`,
    ],
    { [folder]: { version: '24.0.0', optional: true } },
  )
  const path = temporaryFolder(t)
  const run = () => {
    const { stdout, stderr, status } = spawnSync(join(root, 'bin', 'tollgate'), {
      env: { PATH: `${path}:${env.PATH}:/usr/bin:/bin` },
      encoding: 'utf8',
    })
    return { stdout, stderr, status }
  }
  const old = `data:text/javascript,Object.defineProperty(process.versions,"node",{value:"20.1.0"})`
  const lines = ['#!/bin/sh', `exec ${process.execPath} --import '${old}' "$@"`]
  writeFileSync(join(path, 'node'), lines.join('\n'), { mode: 0o755 })
  t.match(run(), { status: 0, stdout: 'it runs\n', stderr: /^Installing packages/ })
  t.strictSame(run(), { status: 0, stdout: 'it runs\n', stderr: '' })
  t.equal(runs(), 1, 'once')
})

test('a Postgres that an interrupted installation has left out is installed for up', async (t) => {
  const folder = `node_modules/${postgresPackage}`
  const bin = `${folder}/native/bin`
  const { root, args, env, runs } = program(t, [`/bin/mkdir -p ${bin}`, `echo > ${bin}/postgres`], {
    [folder]: { version: '18.0.0', optional: true },
  })
  const run = (command: string, more: object = {}) => {
    const options = { env: { ...env, ...more }, encoding: 'utf8' } as const
    const { stdout, stderr } = spawnSync(process.execPath, [...args, command], options)
    return { stdout, stderr }
  }
  const quiet = { stdout: 'it runs\n', stderr: '' }
  t.ok(lacksPostgres(root))
  t.strictSame(run('serve'), quiet, 'which has no embedded one')
  t.strictSame(run('up', { DATABASE_URL: 'postgres://elsewhere' }), quiet)
  t.match(run('up'), { stdout: 'it runs\n', stderr: /^Installing packages/ })
  t.notOk(lacksPostgres(root))
  t.strictSame(run('up'), quiet)
  t.equal(runs(), 1)
})

test('a signal ends the installation with all that it has started', async (t) => {
  const marks = temporaryFolder(t)
  const npm = ['/bin/sh -c "/bin/sleep 20; :" &', `echo $! > ${marks}/child`, 'wait']
  const { root, args, env } = program(t, npm, { 'node_modules/new': { version: '1.0.0' } })
  const start = spawn(process.execPath, args, { env })
  let said = ''
  start.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const mark = join(marks, 'child')
  const pid = await poll(() => Number(readIfThere(mark) ?? 0), 'what npm has started')
  const child = identify(pid)
  start.kill('SIGTERM')
  t.strictSame(await once(start, 'close'), [143, null])
  t.match(said, /Stopped before all packages were installed/)
  t.ok(child)
  await poll(() => !child || !isRunning(child), 'the end of what npm has started')
  t.notOk(existsSync(join(root, '.tools', 'installing')), 'the next start need not wait')
})

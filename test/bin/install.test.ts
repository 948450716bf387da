import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { installPackages, needsInstall } from '../../bin/install.js'
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

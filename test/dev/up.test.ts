import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import root, { type Test, test } from 'tap'
import { journalPlace } from '../../dev/journal-place.ts'
import { identify } from '../../dev/process-identity.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { firstRequests } from '../support/first-requests.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import {
  databaseHome,
  ownSettings,
  processesOf,
  runCommand,
  runTollgate,
} from '../support/tollgate.ts'
import { paste, tryLines } from '../support/try-lines.ts'

const WITHIN_MS = 30_000
const UP = 'Tollgate is up'
const skip = envoyPath() === undefined && 'no Envoy'

/** The database of the first test, which is kept for others: to create one takes a second of CPU. */
const created = join(temporaryFolder(root), 'postgres')

function keepDatabase(dataDir: string): void {
  const home = databaseHome(dataDir)
  if (home === join(dataDir, 'postgres')) execFileSync('cp', ['-a', home, created])
}

/** A data folder that has a database, if the first test has kept one. */
function usedFolder(t: Test): string {
  const dataDir = temporaryFolder(t)
  if (existsSync(created)) execFileSync('cp', ['-a', created, join(dataDir, 'postgres')])
  return dataDir
}

async function start(t: Test, dataDir: string) {
  const settings = await ownSettings(dataDir)
  const tollgate = runTollgate(t, ['up'], settings)
  await tollgate.until('Ctrl-C stops everything.')
  return { tollgate, settings, gateway: `http://${settings.GATEWAY_ADDRESS}` }
}

// Starting everything is slow, so later steps continue with the state of earlier ones.
test('the printed commands give 200, 403, 429', { skip }, async (t) => {
  const dataDir = temporaryFolder(t)
  const { tollgate, settings, gateway } = await start(t, dataDir)
  const lines = tryLines(tollgate.output())
  t.strictSame(lines.map(paste), [200, 403, 429])
  t.match(tollgate.output(), /alice-token.*for trying out/)

  const again = runTollgate(t, ['up'], settings)
  t.equal(await again.ended, 1)
  t.match(again.output(), `in use by another Tollgate (process ${tollgate.pid})`)
  t.strictSame(lines.map(paste), [200, 403, 429], 'the first instance is unaffected')

  const kept = await mint(gateway)
  for (const { agent, path, headers, body, end } of firstRequests) {
    const response = await fetch(gateway + path, {
      method: 'POST',
      headers: { ...headers, authorization: `Bearer ${kept}` },
      body: JSON.stringify({ model: 'sim-small', ...body }),
    })
    t.equal(response.status, 200, agent)
    t.match(await response.text(), end, agent)
  }
  const processes = Object.values(processesOf(dataDir))
  t.equal(processes.length, 4)
  tollgate.signal('SIGTERM')
  t.equal(await tollgate.ended, 0)
  t.strictSame(processes.filter(identify), [], 'no process is left')
  keepDatabase(dataDir)

  await t.test('no file contains a plaintext key', async (t) => {
    const keys = lines.map((line) => /sk-tg-\w+/.exec(line)?.[0] ?? '')
    t.equal(keys.length, 3)
    const place = journalPlace(dataDir)
    for (const file of [
      ...['service', 'envoy', 'model-server'].map((name) => join(dataDir, 'log', `${name}.log`)),
      ...['usage.jsonl', 'usage.envoy.jsonl'].map((name) => join(place, name)),
    ]) {
      const text = readFileSync(file, 'utf8')
      t.notOk(
        keys.some((key) => text.includes(key)),
        file,
      )
    }
    t.equal(statSync(place).mode & 0o777, 0o700)
    t.equal(statSync(join(dataDir, 'journal')).mode & 0o777, 0o700)
  })

  const second = await start(t, dataDir)
  t.equal(await ask(second.gateway, kept), 200, 'a second start keeps the keys')

  await t.test('kill -9 ends all processes', async (t) => {
    const { tollgate, settings } = second
    const processes = Object.values(processesOf(dataDir))
    t.equal(processes.length, 4)
    tollgate.signal('SIGKILL')
    await tollgate.ended
    const killedAt = performance.now()
    await poll(() => !processes.some(identify), 'all processes end', WITHIN_MS)
    t.comment(`ended after ${Math.round(performance.now() - killedAt)} ms`)
    await runTollgate(t, ['up'], settings).until(UP)
  })
})

test("only the gateway's own address has to be free", { skip }, async (t) => {
  const dataDir = usedFolder(t)
  const { ENVOY_PATH = '' } = await ownSettings(dataDir)
  const settings = { DATA_DIR: dataDir, ENVOY_PATH, GATEWAY_ADDRESS: '127.0.0.1:0' }
  const tollgate = runTollgate(t, ['up', '--verbose'], settings)
  await tollgate.until('Ctrl-C stops everything.')
  const output = tollgate.output()
  t.strictSame(tryLines(output).map(paste), [200, 403, 429])
  const lines = output.slice(output.indexOf(UP)).split('\n')
  t.match(lines.slice(2, 4), [/^# 200: /, /^curl -i /], 'what to try comes first')
  const longest = Math.max(...tryLines(output).flatMap((each) => each.split('\n').map(lengthOf)))
  t.ok(longest <= 110, `a line of ${longest} characters can be read`)

  const addresses = JSON.parse(readFileSync(join(dataDir, 'run', 'addresses.json'), 'utf8'))
  for (const [setting, address] of Object.entries(addresses)) {
    t.match(output, new RegExp(`^${setting} +${String(address).replace('.', '\\.')}$`, 'm'))
  }
  const run = join(dataDir, 'run')
  for (const name of ['API', 'INTERNAL', 'GRPC']) {
    const socket = join(run, `${name.toLowerCase()}.sock`)
    t.equal(addresses[`${name}_ADDRESS`], `unix:${socket}`)
    t.equal(statSync(socket).mode & 0o777, 0o600)
  }
  t.match(addresses.METRICS_ADDRESS, /^127\.0\.0\.1:[1-9]\d+$/)
  const metrics = await fetch(`http://${addresses.METRICS_ADDRESS}/metrics`)
  t.equal(metrics.status, 200)
  await metrics.arrayBuffer()

  const doctor = runTollgate(t, ['doctor'], { DATA_DIR: dataDir })
  t.equal(await doctor.ended, 0, doctor.output())
  const pid = processesOf(dataDir).service ?? 0
  process.kill(pid, 'SIGKILL')
  await tollgate.until('The service is back')
  tollgate.signal('SIGTERM')
  t.equal(await tollgate.ended, 0)
})

test('restarts a part that ends', { skip }, async (t) => {
  const dataDir = usedFolder(t)
  const { tollgate, gateway } = await start(t, dataDir)
  const key = await mint(gateway)
  for (const [name, title] of [
    ['envoy', 'Envoy'],
    ['service', 'The service'],
    ['model-server', 'The sample model server'],
    ['postgres', 'Postgres'],
  ] as const) {
    const pid = processesOf(dataDir)[name]
    t.ok(pid)
    process.kill(pid ?? 0, 'SIGKILL')
    await tollgate.until(`${title} ended (SIGKILL); starting it again in 1 s`)
    await tollgate.until(`${title} is back`)
  }
  const answered = async () => (await ask(gateway, key).catch(() => 0)) === 200
  await poll(answered, 'the key works again', WITHIN_MS)
  tollgate.signal('SIGINT')
  t.equal(await tollgate.ended, 0)
})

test('settings in files are replaced by those of the parts', { skip }, async (t) => {
  const dataDir = usedFolder(t)
  const { ENVOY_PATH, GATEWAY_ADDRESS } = await ownSettings(dataDir)
  const files = temporaryFolder(t)
  const inFile = (name: string, text: string) => {
    writeFileSync(join(files, name), text)
    return { [`${name}_FILE`]: join(files, name) }
  }
  const env = {
    ...{ PATH: process.env.PATH, ENVOY_PATH, GATEWAY_ADDRESS },
    ...inFile('DATA_DIR', dataDir),
    ...inFile('RESOURCES', `file:${join(packageRoot, 'examples', 'resources')}`),
    ...inFile('TOKEN_AUTH_FILE', join(packageRoot, 'examples', 'tokens.csv')),
    ...inFile('USAGE_JOURNAL', join(dataDir, 'shared', 'usage.jsonl')),
    ...inFile('AUDIT_LOG', join(dataDir, 'trail.jsonl')),
    ...inFile('ENVOY_CONFIG_DIR', join(dataDir, 'envoy-files')),
  }
  const command = [process.execPath, join(packageRoot, 'bin', 'tollgate.js'), 'up']
  const tollgate = runCommand(t, command, { env, cwd: files }, dataDir)
  await tollgate.until('Ctrl-C stops everything.')
  t.ok(existsSync(join(dataDir, 'trail.jsonl')))
  t.notOk(existsSync(join(files, '.data')), 'nothing is written elsewhere')
  tollgate.signal('SIGTERM')
  t.equal(await tollgate.ended, 0)
})

test('names every port in use with its setting', { skip }, async (t) => {
  const settings = await ownSettings(temporaryFolder(t))
  const taken = ['GATEWAY_ADDRESS', 'METRICS_ADDRESS', 'MODEL_SERVER_ADDRESS']
  for (const setting of taken) {
    const port = Number(settings[setting]?.split(':')[1])
    const server = createServer().listen(port, '127.0.0.1')
    t.teardown(() => server.close())
    await once(server, 'listening')
  }
  const tollgate = runTollgate(t, ['up'], settings)
  t.equal(await tollgate.ended, 1)
  for (const setting of taken) {
    t.match(tollgate.output(), `${settings[setting]} (${setting}) is already in use`)
  }
  t.notMatch(tollgate.output(), 'Starting')
})

test('names invalid resources without moving the cursor', async (t) => {
  const folder = temporaryFolder(t, {
    'a\u001b[2J.yaml': 'kind: Nothing',
    'b\u001b[2J.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }',
  })
  const settings = await ownSettings(temporaryFolder(t))
  const tollgate = runTollgate(t, ['up'], { ...settings, RESOURCES: `file:${folder}` })
  t.equal(await tollgate.ended, 1)
  t.match(tollgate.output(), /a\ufffd\[2J\.yaml:1: /)
  t.notOk(tollgate.output().includes('\u001b'))
})

test('stops everything if Envoy does not start', async (t) => {
  const settings = await ownSettings(usedFolder(t))
  const tollgate = runTollgate(t, ['up'], { ...settings, ENVOY_PATH: '/bin/false' })
  t.equal(await tollgate.ended, 1)
  t.match(tollgate.output(), /^Envoy ended before it was ready \(exit code 1\)/m)
  t.strictSame(processesOf(settings.DATA_DIR ?? ''), {}, 'no process is left')
})

test('a signal during the start leaves no process', async (t) => {
  const settings = await ownSettings(temporaryFolder(t))
  for (const stage of ['Starting Postgres', 'Starting the service']) {
    const tollgate = runTollgate(t, ['up'], { ...settings, ENVOY_PATH: process.execPath })
    await tollgate.until(stage)
    tollgate.signal('SIGTERM')
    t.equal(await tollgate.ended, 0)
    t.strictSame(processesOf(settings.DATA_DIR ?? ''), {})
  }
})

test('Ctrl-C while the database is created is a stop', async (t) => {
  const settings = await ownSettings(temporaryFolder(t))
  const tollgate = runTollgate(t, ['up'], { ...settings, ENVOY_PATH: process.execPath })
  await tollgate.until('Creating the database')
  const children = () =>
    readFileSync(`/proc/${tollgate.pid}/task/${tollgate.pid}/children`, 'utf8').trim().split(' ')
  await poll(() => children().some((pid) => commandOf(pid) === 'initdb'), 'initdb runs')
  // A terminal sends it to all of them.
  for (const pid of children()) process.kill(Number(pid), 'SIGINT')
  tollgate.signal('SIGINT')
  t.equal(await tollgate.ended, 0, tollgate.output())
  t.match(tollgate.output(), 'Everything has stopped')
  t.notMatch(tollgate.output(), 'could not be created')
})

function commandOf(pid: string): string {
  return pid === '' ? '' : readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
}

function lengthOf(line: string): number {
  return line.length
}

async function mint(gateway: string): Promise<string> {
  const response = await fetch(`${gateway}/v1/api-keys`, {
    method: 'POST',
    headers: { authorization: 'Bearer alice-token', 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'kept' }),
  })
  return ((await response.json()) as { key: string }).key
}

async function ask(gateway: string, key: string): Promise<number> {
  const response = await fetch(`${gateway}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim-small', messages: [{ role: 'user', content: 'Hi' }] }),
  })
  await response.arrayBuffer()
  return response.status
}

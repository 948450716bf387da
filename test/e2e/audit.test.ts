import { spawnSync } from 'node:child_process'
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import root from 'tap'
import { formatAddress } from '../../src/settings/config.ts'
import { gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { inPod } from '../support/in-pod.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder(root)
const path = join(folder, 'audit.jsonl')
const test = gatewayTests({
  env: { AUDIT_LOG: path, AUDIT_REQUIRED: 'true', ...inPod('one') },
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: 1_000_000 }),
    meter,
  ],
})

function changesOf(line: Record<string, unknown> = {}): { change: string; resource: string }[] {
  return line.changes as { change: string; resource: string }[]
}

function read(from = path): Record<string, unknown>[] {
  const text = existsSync(from) ? readFileSync(from, 'utf8') : ''
  return text.split('\n').flatMap((line) => (line === '' ? [] : JSON.parse(line)))
}

test('the start, the resources and their changes are in the trail', async (t, gateway) => {
  const lines = await poll(() => {
    const found = read()
    return found.some(({ action }) => action === 'service.start') ? found : undefined
  }, 'the start is in the trail')
  const applied = lines?.find(({ action }) => action === 'resources.apply')
  t.match(applied, {
    outcome: 'success',
    actor: { source: 'service' },
    replica: 'one',
    status: null,
  })
  t.strictSame(
    changesOf(applied).map(({ resource }) => resource),
    [
      'ModelRef/llm/sim',
      'ModelRef/llm/other',
      'AccessPolicy/models-as-a-service/open',
      'Subscription/models-as-a-service/plenty',
      'Subscription/models-as-a-service/meter',
    ],
  )
  gateway.put('more.yaml', subscriptions({ more: 5 }))
  const changes = [{ change: 'added', resource: 'Subscription/models-as-a-service/more' }]
  await poll(
    () => JSON.stringify(read().at(-1)?.changes) === JSON.stringify(changes),
    'the change is in the trail',
  )
})

test('one request has the same id at the client and in the trail', async (t, gateway) => {
  const user = gateway.newUser()
  const answer = await gateway.ask('/v1/api-keys', `token-${user}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'mine', subscription: 'plenty' }),
  })
  t.equal(answer.status, 201)
  const id = answer.headers.get('x-request-id')
  t.match(
    read().filter(({ request_id }) => request_id === id),
    [
      { action: 'key.create', outcome: 'intent', actor: { user } },
      { action: 'key.create', outcome: 'success', status: 201, address: String },
    ],
  )
})

test('writes a new file after the old one was renamed', async (t, gateway) => {
  const before = read().length
  renameSync(path, `${path}.1`)
  await poll(() => existsSync(path), 'the new file exists')
  await gateway.mint()
  t.equal(read(`${path}.1`).length, before)
  t.match(read(), [{ outcome: 'intent' }, { outcome: 'success' }])
})

test('logrotate works with the example configuration', async (t, gateway) => {
  const example = readFileSync(
    new URL('../../examples/audit-log/logrotate.conf', import.meta.url),
    'utf8',
  )
  const own = join(folder, 'logrotate.conf')
  const run = (...more: readonly string[]) => {
    const args = ['--force', '--state', join(folder, 'state'), ...more, own]
    return spawnSync('logrotate', args, { encoding: 'utf8', cwd: folder })
  }
  writeFileSync(own, example, { mode: 0o600 })
  const { error, stderr } = run('--debug')
  if (error === undefined) t.notMatch(stderr, /^error/m, 'as it is, in the root of a repository')
  writeFileSync(own, example.replace('.data/audit/audit.jsonl', path), { mode: 0o600 })
  await gateway.mint()
  const first = run()
  if (first.error !== undefined) {
    t.pass('rotated', { skip: 'no logrotate on PATH' })
    return
  }
  t.equal(first.status, 0, first.stderr)
  await gateway.mint()
  const rotated = readdirSync(folder).filter((name) => /^audit\.jsonl-\d{8}-\d+$/.test(name))
  t.equal(rotated.length, 1)
  t.equal(read().length, 2)
})

test('a full disk refuses key changes, but nothing else', async (t, gateway) => {
  if (!existsSync('/dev/full')) {
    t.pass('refused', { skip: 'no /dev/full' })
    return
  }
  const { key, id } = await gateway.mint()
  const lost = async () => {
    const { metrics } = gateway.addresses
    const answer = await fetch(`http://${metrics?.host}:${metrics?.port}/metrics`)
    return readScrape(await answer.text()).value('tollgate_audit_lost_total') ?? Number.NaN
  }
  t.equal(await lost(), 0)
  rmSync(path)
  symlinkSync('/dev/full', path)
  t.equal(
    (await gateway.ask('/v1/api-keys/bulk-revoke', 'token-admin', { method: 'POST', body: '{}' }))
      .status,
    503,
  )
  const refused = await gateway.ask(`/v1/api-keys/${id}`, 'token-admin', { method: 'DELETE' })
  t.equal(refused.status, 503)
  t.match(JSON.parse(refused.text), { error: { code: 'audit_unavailable' } })
  t.equal((await gateway.chat(key)).status, 200, 'the key is not revoked')
  t.ok((await lost()) >= 2)
  const readyz = async () =>
    (await fetch(`http://${formatAddress(gateway.addresses.internal)}/readyz`)).text()
  t.match(JSON.parse(await readyz()), { status: 'ready', degraded: ['audit'] })
  rmSync(path)
  t.equal(
    (await gateway.ask(`/v1/api-keys/${id}`, 'token-admin', { method: 'DELETE' })).status,
    200,
  )
  t.match(read().at(-1), { action: 'key.revoke', outcome: 'success', actor: { user: 'admin' } })
  t.strictSame(JSON.parse(await readyz()), { status: 'ready' })
})

test('the stop is in the trail', async (t, gateway) => {
  await gateway.stopService()
  t.match(read().at(-1), { action: 'service.stop', actor: { user: 'tollgate' } })
  await gateway.startService()
})

import { type Test, test } from 'tap'
import { counterOf } from '../../src/ratelimit/rules/counter-cache.ts'
import { runAt } from '../support/command.ts'
import { createTestCounters } from '../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { createKeyApi } from '../support/key-api.ts'
import { startAnswering } from '../support/list-api.ts'
import { shownEnd } from '../support/window-ends.ts'

const snapshot = snapshotOf(
  modelRef('small'),
  accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
  subscription('basic', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] }),
)

async function start(t: Test, resources = snapshot) {
  const counters = createTestCounters()
  const api = await createKeyApi(t, { snapshot: resources, readCounters: counters.readFresh })
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const run = (token: string, ...args: string[]) =>
    runAt({ env: { TOLLGATE_URL: url, TOLLGATE_TOKEN: token } }, 'explain', ...args)
  return { api, counters, run }
}

test('shows the steps, what pays and what is left', async (t) => {
  const { counters, api, run } = await start(t)
  const [limit] = snapshot.subscriptions.get('basic')?.limits.get('llm/small') ?? []
  if (limit === undefined) throw new Error('no limit')
  const open = await run('alice-token', 'llm/small')
  t.equal(open.status, 0)
  const asNew = 'You have no active key: a new key would be of the Subscription basic\\.'
  t.match(open.out, new RegExp(`^It would be allowed\\.\n\n${asNew}\n\nSTEP +RESULT +BY`))
  t.match(open.out, /^limits +passed +Subscription models-as-a-service\/basic$/m)
  t.match(open.out, /^AccessPolicy models-as-a-service\/open +yes$/m)
  const end = shownEnd('1m', 'alice', api.now)
  t.match(open.out, new RegExp(`^1m +user +0 +100 +${end}$`, 'm'))

  counters.add([counterOf(limit, 'alice')], 100, api.now)
  const spent = await run('alice-token', 'small')
  t.equal(spent.status, 1, 'a refusal')
  t.match(spent.out, /^It would be refused with 429 rate_limit_exceeded: /)
  t.match(spent.out, /^limits +refused +Subscription models-as-a-service\/basic$/m)
  t.match(spent.out, new RegExp(`^1m +user +100 +100 +${end} +yes$`, 'm'), 'it refuses')
  t.match(spent.out, new RegExp(`^This changes at ${end}\\.$`, 'm'))
  const json = await run('alice-token', 'small', '--json', '--at', end)
  t.match(JSON.parse(json.out), { allowed: true, limits: [{ used: 0 }] })
  const later = await run('alice-token', 'small', '--json', '--at', '2d')
  t.match(JSON.parse(later.out), { allowed: true })
})

test('says whom Envoy asks, and why', async (t) => {
  const response = { allowed: true, steps: [], policies: [], subscriptions: [], limits: [] }
  const table = { decides: false, reason: 'renamed' }
  const { url } = await startAnswering(t, 200, { ...response, table })
  const { out } = await runAt({ env: { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'x' } }, 'explain', 'm')
  t.match(out, /^Envoy asks the service each time \(renamed\)\.$/m)
})

test('asks about a key, and as an administrator about anybody', async (t) => {
  const { api, run } = await start(t)
  const { id } = await api.createKey('alice')
  t.match(JSON.parse((await run('alice-token', 'small', '--key', id, '--json')).out), { keyId: id })
  const foreign = ['llm/small', '--user', 'zed', '--group', 'team-b', '--group', 'team-c'] as const
  t.match(await run('alice-token', ...foreign), { status: 1, err: /^Only an administrator/ })
  const asked = await run('admin-token', ...foreign)
  t.equal(asked.status, 1)
  t.match(asked.out, /refused with 403 model_not_allowed/)
  t.match(asked.out, /^access +refused/m)
  t.match(asked.out, /^Asked as zed, in team-b, team-c \(--group\), who has no active key\.$/m)
  const silver = await run('admin-token', 'small', '--user', 'zed', '--subscription', 'silver')
  t.match(
    silver.out,
    /^Asked as zed, in no groups \(--group\), who has no active key of the Subscription silver\.$/m,
  )
  const own = await run('admin-token', 'small', '--user', 'alice', '--subscription', 'basic')
  t.match(own.out, /^It would be allowed\.\n\nAsked with the newest key, .* Subscription basic\.$/m)
  t.match(await run('alice-token', 'small', '--request', 'nothing'), {
    status: 2,
    err: /^--request cannot be combined with a model or other flags\./,
  })
  t.match(await run('alice-token', '--request', 'nothing'), {
    status: 1,
    err: /^No refusal with this/,
  })
})

test('names other keys with which it would be otherwise', async (t) => {
  const { api, run } = await start(
    t,
    snapshotOf(
      ...[modelRef('small'), modelRef('other')],
      accessPolicy('open', ['llm/small', 'llm/other'], { groups: ['team-a'] }),
      subscription('basic', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] }),
      subscription('else', { groups: ['team-a'] }, { 'llm/other': [[100, '1m']] }),
    ),
  )
  const { id } = await api.createKey('alice', { name: 'daily', subscription: 'basic' })
  api.now += 1_000
  await api.createKey('alice', { name: 'batch', subscription: 'else' })
  const { out } = await run('alice-token', 'small')
  const asked = 'Asked with the newest key, batch \\(.*\\), of the Subscription else\\.'
  const other = `Otherwise with daily \\(${id}\\), allowed; --key asks with one of them\\.`
  t.match(out, new RegExp(`^It would be refused with 403 .*\n\n${asked} ${other}$`, 'm'))
})

test('invalid arguments say where help is', async (t) => {
  const { run } = await start(t)
  for (const args of [[], ['small', 'large'], ['small', '--nothing']]) {
    const { status, err } = await run('alice-token', ...args)
    t.equal(status, 2, args.join(' '))
    t.match(err, / See tollgate explain --help\.$/)
  }
})

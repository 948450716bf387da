import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { maxExactInt } from '../../src/formats/exact.ts'
import { formatMoney, parseMoney } from '../../src/formats/money.ts'
import { runAt } from '../support/command.ts'
import { createMigratedDatabase } from '../support/database.ts'
import { accessPolicy, modelRef, type WrittenDocument } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Gateway, meter, startGateway } from '../support/gateway.ts'
import { ownPlaces } from '../support/own-places.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const noEnvoy = envoyPath() === undefined && 'no Envoy'
const most = Number.MAX_SAFE_INTEGER
const admin = 'token-admin'
const until = () => new Date(Date.now() + 3_600_000).toISOString()
/** Of the greatest limit there is. */
const budget = parseMoney('9000000000') as bigint

/** Output weighs nothing, or nobody could use more than `tokenRateLimits` allows, of 10^9. */
const entry = {
  ...{ namespace: 'llm', name: 'sim', weights: { output: 0 } },
  tokenRateLimits: [{ limit: 1_000_000_000, window: '1h' }],
  billingRate: {
    perInputToken: '0.000000001',
    perOutputToken: '0.0000009',
    perRequest: '0.000000001',
  },
}

function pool(name: string, limit: object): WrittenDocument {
  const shared = { name: 'all', per: 'subscription', window: 'month', ...limit }
  return {
    ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Subscription', metadata: { name } },
    spec: { owner: { groups: [{ name: 'team' }] }, modelRefs: [entry], limits: [shared] },
  }
}

async function start(t: Test, more: object) {
  const folder = temporaryFolder(t)
  const people = { ada: 'team', bob: 'team', admin: 'tollgate-admins' }
  const tokens = Object.entries(people).map(([user, group]) => `token-${user},${user},,${group}`)
  writeFileSync(join(folder, 'tokens.csv'), tokens.join('\n'))
  const env = {
    ...ownPlaces(t),
    DATABASE_URL: await createMigratedDatabase(t),
    TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
    ...more,
  }
  const gateway = await startGateway(t, {
    env,
    resources: (backendUrl) => [
      modelRef('sim', { backendUrl }),
      accessPolicy('open', ['llm/sim'], { groups: ['team'] }),
      pool('money', { of: 'cost', limit: '8999999999.999999999' }),
      pool('tokens', { of: 'output', limit: 999_999_999_999_999 }),
      meter,
    ],
  })
  return { gateway, env }
}

const usageOf = (input: number, output: number) => ({
  prompt_tokens: input,
  completion_tokens: output,
  ...(input + output <= most && { total_tokens: input + output }),
})

async function post(gateway: Gateway, path: string, body: object) {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' } }
  const answer = await gateway.ask(path, admin, { ...init, body: JSON.stringify(body) })
  return { status: answer.status, ...JSON.parse(answer.text) }
}

/** What everybody is told of a pool. */
async function shown(gateway: Gateway, key: string, subscription: string) {
  const limits = JSON.parse((await gateway.ask('/v1/limits', key)).text).data
  const own = limits.find(({ name }: { name: string | null }) => name === 'all')
  const asked = { model: 'llm/sim', user: 'bob', groups: ['team'], subscription }
  const explained = (await post(gateway, '/v1/explain', asked)).limits
  const all = JSON.parse((await gateway.ask('/v1/admin/limits', admin)).text).data
  const isIt = (each: { name: string | null }) => each.name === 'all'
  const inAll = all.find((each: { subscription: string }) => each.subscription === subscription)
  return [own, explained.find(isIt), inAll].map(({ limit, used, remaining }) => {
    return { limit, used, remaining }
  })
}

async function attack(t: Test, gateway: Gateway, env: Record<string, string>): Promise<void> {
  const mint = (user: string, subscription: string) => gateway.mint({ user, subscription })
  const keys = {
    money: (await mint('ada', 'money')).key,
    tokens: (await mint('ada', 'tokens')).key,
  }
  for (const [subscription, limit] of [
    ['money', '9000000000'],
    ['tokens', 1_000_000_000_000_000],
  ] as const) {
    const asked = { subscription, name: 'all', until: until(), reason: 'huge' }
    const over = typeof limit === 'number' ? limit + 1 : '9000000000.000000001'
    const refused = await post(gateway, '/v1/admin/increases', { ...asked, limit: over })
    t.equal(refused.status, 400, 'there is no more than the most')
    const { status, propagation, ...made } = await post(gateway, '/v1/admin/increases', {
      ...asked,
      limit,
    })
    t.match({ status, limit: made.limit }, { status: 200, limit }, JSON.stringify(made))
  }

  let used = 0n
  const spend = async (input: number, output: number, cost: bigint) => {
    const answer = await gateway.chat(keys.money, { usage: usageOf(input, output) })
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('x-tollgate-budget-limit'), '9000000000')
    t.equal(answer.headers.get('x-tollgate-budget-remaining'), formatMoney(budget - used), 'before')
    used += cost
    const left = used < budget ? budget - used : 0n
    const counted = used < maxExactInt ? used : maxExactInt
    const is = { limit: '9000000000', used: formatMoney(counted), remaining: formatMoney(left) }
    await poll(
      async () => (await shown(gateway, keys.money, 'money'))[0]?.used === is.used,
      is.used,
    )
    t.strictSame(await shown(gateway, keys.money, 'money'), [is, is, is])
  }
  await spend(0, most, 900n * BigInt(most) + 1n)
  await spend(0, 992_800_745_259_008, 900n * 992_800_745_259_008n + 1n)
  await gateway.stopService()
  await gateway.startService()
  await spend(896, 0, 897n)
  t.equal(budget - used, 1n)
  await spend(0, 992_800_745_259_007, 900n * 992_800_745_259_007n + 1n)
  const refused = await gateway.chat(keys.money, { usage: usageOf(0, 0) })
  t.equal(refused.status, 429)
  t.equal(refused.headers.get('x-tollgate-budget-remaining'), '0')
  t.equal(await gateway.isSpent((await mint('bob', 'money')).key), true, 'for everybody')

  let tokens = 0
  for (const output of [999_999_999_999_998, 1, most]) {
    t.equal((await gateway.chat(keys.tokens, { usage: usageOf(0, output) })).status, 200)
    tokens += output
    const is = { limit: 10 ** 15, used: tokens, remaining: Math.max(0, 10 ** 15 - tokens) }
    await poll(
      async () => (await shown(gateway, keys.tokens, 'tokens'))[0]?.used === tokens,
      `${tokens}`,
    )
    t.strictSame(await shown(gateway, keys.tokens, 'tokens'), [is, is, is])
  }
  t.equal((await gateway.chat(keys.tokens)).status, 429)

  const cost = formatMoney(used)
  await poll(async () => {
    const { text } = await gateway.ask('/v1/usage?subscription=money', admin)
    return JSON.parse(text).data[0]?.cost === cost
  }, 'the ledger has the same sum')
  const { text: csv } = await gateway.ask('/v1/usage?format=focus&subscription=money', admin)
  t.equal(billed(csv), used * 10n ** 15n, 'and the bill')
  const verified = await poll(async () => {
    const done = await runAt({ env }, 'usage', 'verify')
    return done.status === 0 ? done : undefined
  }, 'usage verify finds the same')
  t.match(verified?.out, /./)
}

/** In units of 10⁻²⁴. */
function billed(csv: string): bigint {
  const [head = '', ...rows] = csv.trim().split('\n')
  const at = head.trim().split(',').indexOf('BilledCost')
  return rows.reduce((sum, row) => {
    const [whole = '', fraction = ''] = (row.split(',')[at] ?? '').split('.')
    return sum + BigInt(`${whole}${fraction.padEnd(24, '0')}`)
  }, 0n)
}

root.test('no digit of the greatest budgets is lost in memory', { skip: noEnvoy }, async (t) => {
  const { gateway, env } = await start(t as Test, {})
  await attack(t as Test, gateway, env)
})

const skip = noEnvoy || skipValkey
root.test('no digit of the greatest budgets is lost in Redis', { skip }, async (t) => {
  const valkey = await startValkey(t)
  const { gateway, env } = await start(t as Test, { REDIS_URL: valkey.url })
  await attack(t as Test, gateway, env)
  const sums = await valkey.client.keys('*')
  t.ok(sums.length > 0)
})

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { addExact, type ExactInt } from '../../src/formats/exact.ts'
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

const skip = (envoyPath() === undefined && 'no Envoy') || skipValkey
const people = { ada: 'red', bob: 'blue', eve: 'nobody', admin: 'tollgate-admins' }

const small = {
  ...{ perInputToken: '0.0000004', perOutputToken: '0.0000016', perCachedToken: '0.0000001' },
}
const large = {
  ...{ perInputToken: '0.000003', perOutputToken: '0.0000150001', perRequest: '0.0001' },
  ...{ perCachedToken: '0.0000003', perCacheWriteToken: '0.00000375' },
}
const tokenRateLimits = [{ limit: 1_000_000_000, window: '1h' }]
const budget = '0.0156'
const spec = {
  owner: { groups: [{ name: 'red' }, { name: 'blue' }], users: ['eve'] },
  modelRefs: [
    { namespace: 'llm', name: 'small', tokenRateLimits, billingRate: small },
    {
      ...{ namespace: 'llm', name: 'large', tokenRateLimits, billingRate: large },
      weights: { cached: 0.1, cacheWrite: 1.25, output: 4 },
    },
  ],
  limits: [
    { name: 'team', per: 'subscription', of: 'cost', limit: budget, window: 'month' },
    { name: 'group', per: 'group', of: 'tokens', limit: 100_000, window: 'month' },
  ],
  calendar: { timeZone: 'Europe/Zurich' },
}

/** Who asks which model in which dialect, what it reports, its cost and its weighted tokens; or what happens. */
const rows: readonly (readonly [string, ...string[]])[] = [
  ['ada', 'small', 'openai', 'input 1000, cached 200, output 500', '0.00114', '1500'],
  // One use in both dialects, at 0.0058150201.
  [
    'bob',
    'large',
    'anthropic',
    'input 300, cached 1000, written 400, output 201',
    '0.005815021',
    '1704',
  ],
  [
    'bob',
    'large',
    'openai',
    'input 1700, cached 1000, written 400, output 201',
    '0.005815021',
    '1704',
  ],
  // A total without parts is output.
  ['eve', 'small', 'openai', 'total 700', '0.00112', '700'],
  ['the price of output of small is changed'],
  ['ada', 'small', 'openai', 'input 1000, cached 200, output 500', '0.00134', '1500'],
  ['the service is restarted'],
  ['ada', 'large', 'anthropic', 'input 10, output 3', '0.000175001', '22'],
  ['Redis loses its data'],
  ['eve', 'large', 'openai', 'input 1, output 2', '0.000133001', '9'],
  ['a client hangs up in a stream'],
]

function acme(priceOfOutput?: string): WrittenDocument {
  const modelRefs = spec.modelRefs.map((model) => ({
    ...model,
    billingRate: {
      ...model.billingRate,
      ...(model.name === 'small' && priceOfOutput && { perOutputToken: priceOfOutput }),
    },
  }))
  const apiVersion = 'tollgate.dev/v1alpha1'
  const metadata = { name: 'acme' }
  return { apiVersion, kind: 'Subscription', metadata, spec: { ...spec, modelRefs } }
}

function figuresIn(text: string): Record<string, number> {
  return Object.fromEntries(
    [...text.matchAll(/(\w+) (\d+)/g)].map(([, name, n]) => [name, Number(n)]),
  )
}

/** `input 300, cached 1000` in the words of a dialect. */
function usageIn(dialect: string, text: string): object {
  const { input = 0, cached = 0, written = 0, output = 0, total } = figuresIn(text)
  if (total !== undefined) return { total_tokens: total }
  if (dialect === 'anthropic') {
    return {
      ...{ input_tokens: input, output_tokens: output },
      ...{ cache_read_input_tokens: cached, cache_creation_input_tokens: written },
    }
  }
  const details = { cached_tokens: cached, cache_write_tokens: written }
  return {
    ...{ prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    prompt_tokens_details: details,
  }
}

const operations = { openai: 'chat/completions', anthropic: 'messages' } as const

function send(
  gateway: Gateway,
  key: string,
  model: string,
  dialect: string,
  sim: object,
  more = {},
) {
  const operation = operations[dialect as keyof typeof operations]
  const fields = { model, max_tokens: 1_000, ...more }
  return gateway.chat(key, sim, fields, `/llm/${model}/v1/${operation}`)
}

async function startMonth(t: Test) {
  const folder = temporaryFolder(t)
  const tokens = Object.entries(people).map(
    ([user, group], i) => `token-${user},${user},${i},${group}`,
  )
  writeFileSync(join(folder, 'tokens.csv'), tokens.join('\n'))
  const valkey = await startValkey(t)
  const env = {
    ...ownPlaces(t),
    DATABASE_URL: await createMigratedDatabase(t),
    TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
    REDIS_URL: valkey.url,
    METER_PATHS: 'chat,messages',
  }
  const gateway = await startGateway(t, {
    resources: (backendUrl) => [
      modelRef('small', { backendUrl }),
      modelRef('large', { backendUrl }),
      accessPolicy('open', ['llm/small', 'llm/large'], { groups: ['red', 'blue'], users: ['eve'] }),
      meter,
    ],
    env,
  })
  gateway.put('acme.yaml', [acme()])
  return { gateway, valkey, env }
}

root.test(
  'a budget is charged to the nano-unit, through changes, restarts and losses',
  { skip },
  async (t) => {
    const { gateway, valkey, env } = await startMonth(t as Test)
    const keys: Record<string, string> = {}
    for (const user of ['ada', 'bob', 'eve']) {
      const key = await poll(
        () => gateway.mint({ user, subscription: 'acme' }).catch(() => undefined),
        'the Subscription is in force',
      )
      keys[user] = key?.key ?? ''
    }
    const of = (user: string) => keys[user] as string
    const limits = async (user: string) =>
      JSON.parse((await gateway.ask('/v1/limits', of(user))).text).data
    const named = async (user: string, name: string) =>
      (await limits(user)).find((each: { name: string }) => each.name === name)
    const events: Record<string, () => Promise<unknown>> = {
      async price() {
        gateway.put('acme.yaml', [acme('0.000002')])
        await poll(
          async () =>
            (await gateway.ask('/v1/subscriptions', 'token-eve')).text.includes('0.000002'),
          'the new price is in force',
        )
      },
      async restarted() {
        await gateway.stopService()
        await gateway.startService()
      },
      loses: () => valkey.client.flushall(),
      hangs: () => hangUp(gateway, of('bob')),
    }
    let charged: ExactInt = 0
    const counted: Record<string, number> = { ada: 0, bob: 0, eve: 0 }
    for (const [user, model, dialect = '', usage = '', cost = '', tokens] of rows) {
      if (model === undefined) {
        const [, event] = Object.entries(events).find(([word]) => user.includes(word)) ?? []
        t.ok(event, user)
        await event?.()
        continue
      }
      const answer = await send(gateway, of(user), model, dialect, {
        usage: usageIn(dialect, usage),
      })
      t.equal(answer.status, 200, `${user}: ${usage}`)
      const left = answer.headers.get('x-tollgate-budget-remaining')
      const before = parseMoney(budget) as ExactInt
      t.equal(addExact(parseMoney(left ?? '') ?? -1, charged), before, 'what is left before it')
      charged = addExact(charged, parseMoney(cost) as ExactInt)
      counted[user] = (counted[user] ?? 0) + Number(tokens)
      await poll(
        async () => (await named(user, 'team')).used === formatMoney(charged),
        `${formatMoney(charged)} are used`,
      )
      t.equal((await named(user, 'group')).used, counted[user], `of the pool of ${user}`)
    }
    const refused = await poll(async () => {
      const answer = await send(gateway, of('eve'), 'small', 'openai', {
        usage: { total_tokens: 0 },
      })
      return answer.status === 429 ? answer : undefined
    }, 'the stream has been counted, which was the last that fitted')
    t.match(JSON.parse(refused?.text ?? ''), { error: { code: 'insufficient_quota' } })
    t.equal(refused?.headers.get('x-tollgate-budget-remaining'), '0')
    // A line may come late: all are of one time only if the first is the same afterwards.
    const used = await poll(async () => {
      const { used } = await named('eve', 'team')
      const { text } = await gateway.ask('/v1/usage?subscription=acme', 'token-admin')
      const [row] = JSON.parse(text).data
      const focus = '/v1/usage?format=focus&subscription=acme'
      const { text: csv } = await gateway.ask(focus, 'token-admin')
      const isSame = row?.cost === used && sumOfColumn(csv, 'BilledCost') === used
      return isSame && (await named('eve', 'team')).used === used ? used : undefined
    }, 'the ledger and the bill have the same sum')
    t.ok(
      (parseMoney(used) as ExactInt) > charged,
      `${used}, with what the stream was estimated to have used`,
    )
    const verified = await runAt({ env }, 'usage', 'verify')
    t.equal(verified.status, 0, verified.out + verified.err)
  },
)

/** Leaves in the midst of a stream. */
async function hangUp(gateway: Gateway, key: string): Promise<void> {
  const leaving = new AbortController()
  const sim = { usage: { input_tokens: 20, output_tokens: 50 }, chunkDelayMs: 100 }
  const response = await fetch(`${gateway.url}/llm/large/v1/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      ...{ model: 'large', stream: true, max_tokens: 1_000, sim },
      messages: [{ role: 'user', content: 'Hi' }],
    }),
    signal: leaving.signal,
  })
  await response.body?.getReader().read()
  await delay(300)
  leaving.abort()
}

/** Of decimal numbers, which may be negative, exactly. */
function sumOfColumn(csv: string, column: string): string {
  const [head = '', ...lines] = csv.trim().split('\n')
  const at = head.split(',').indexOf(column)
  const digits = 30
  let sum = 0n
  for (const line of lines) {
    // Before it there are no quotes.
    const cell = line.split(',')[at] ?? ''
    const [whole = '', fraction = ''] = cell.replace('-', '').split('.')
    sum += BigInt(whole + fraction.padEnd(digits, '0')) * (cell.startsWith('-') ? -1n : 1n)
  }
  const text = sum.toString().padStart(digits + 1, '0')
  return `${text.slice(0, -digits)}.${text.slice(-digits)}`.replace(/\.?0+$/, '')
}

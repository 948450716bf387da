import { test } from 'tap'
import type { Grant } from '../../src/decide/decision.ts'
import { createTemplates, type TemplateOf } from '../../src/extauthz/allow-template.ts'
import { toCheckResponse } from '../../src/extauthz/check-response.ts'
import type { KeyCaller } from '../../src/identity/rules/caller.ts'
import { compileCaps } from '../../src/keys/rules/compiled-caps.ts'
import type { Dialect } from '../../src/operations/dialect.ts'
import { toCountedLimits } from '../../src/ratelimit/rules/counted-limits.ts'
import { limitStates } from '../../src/ratelimit/rules/limit.ts'
import { putLimitHeaders } from '../../src/ratelimit/rules/limit-headers.ts'
import { formatSubject } from '../../src/usage/rules/line-head.ts'
import { modelRef, snapshotOf } from '../support/documents.ts'
import { checkResponse, structOf } from '../support/envoy-messages.ts'
import { writeLineHead } from '../support/line-head.ts'
import { createRandom, type Random } from '../support/random.ts'

const start = Date.UTC(2026, 0, 1)

/** Specs of ModelRefs that change the response. */
const specs: readonly object[] = [
  {},
  { upstreamModel: 'acme/big-70b' },
  { timeouts: { idle: '1m', answer: '20m' } },
  { retries: 0 },
  { modelIds: ['a', 'b'], retries: 1 },
  { credential: { file: 'key' } },
]

/** Two models with each spec, each from a snapshot of its own. */
const models = specs.flatMap((spec) =>
  ['small', 'large'].map((name) => {
    const model = snapshotOf(modelRef(name, spec)).models.get(`llm/${name}`)
    if (model === undefined) throw new Error(`no model of ${JSON.stringify(spec)}`)
    return model
  }),
)
const limitsOf = (rates: readonly (readonly [number, string, number])[]) =>
  toCountedLimits(
    'basic',
    'llm/small',
    rates.map(([limit, window, windowMs]) => ({ limit, window, windowMs })),
  )
const minute = ['1m', 60_000] as const
/** The second and the third list have equal limits, but are different objects. */
const limitLists = [
  [],
  limitsOf([[100, ...minute]]),
  limitsOf([[100, ...minute]]),
  limitsOf([
    [100, ...minute],
    [2 ** 53 - 1, '24h', 86_400_000],
  ]),
  limitsOf([[1, ...minute]]),
]

function pick<Value>(random: Random, values: readonly Value[]): Value {
  return values[random.below(values.length)] as Value
}

function randomGrant(random: Random, now: number): Grant {
  const id = pick(random, ['id-1', 'id-2'])
  const tokenRateLimits = [{ limit: 10 + random.below(90), window: pick(random, ['1m', '2h']) }]
  const written = pick(random, [{}, { tokenRateLimits }, { allowedAddresses: ['::1'] }])
  const caps = compileCaps({ id, user: 'ada', subscription: 'basic', caps: written })
  const capped = random.below(2) === 0 && caps ? caps : undefined
  const keyLimits = capped?.limitsOn?.('llm/small', {})
  const limits = [...pick(random, limitLists), ...(keyLimits?.limits ?? [])]
  const counters = limits.map(() => ({
    used: random.below(3) === 0 ? 0 : random.below(120),
    resetsAt: now + 1 + random.below(86_400_000),
  }))
  const user = pick(random, ['ada', 'ädä', 'x'.repeat(300), `user-${random.below(1_000)}`])
  const subscription = pick(random, ['basic', 'second', 'y'.repeat(63)])
  const groups = ['team-a']
  return {
    allowed: true,
    caller: capped
      ? { by: 'key', user, groups, keyId: id, subscription, caps: capped }
      : pick(random, [
          { by: 'key', user, groups, keyId: id, subscription },
          { by: 'token', user, groups, proof: { by: 'file' } },
        ] as const),
    model: pick(random, models),
    cluster: pick(random, ['model/llm/small', 'model/llm/large']),
    subscription,
    limits,
    keyLimits,
    states: limitStates(limits, counters, now),
    metered: random.below(2) === 0,
    uncounted: false,
    listing: false,
    owningGroup: pick(random, [undefined, '', 'team-a']),
    payer: pick(random, [undefined, 'organization=a&rate=0.1', 'organization=b']),
    bodyNames: pick(random, [undefined, 'small', 'small\ta\tb']),
    sentName: pick(random, [undefined, 'small', 'org/Small']),
    upstreamPath: pick(random, ['/v1/chat/completions', '/v1/messages?a=b', `/${'z'.repeat(200)}`]),
  }
}

const request = { id: 'request-1', startedAt: start }

type KeyNews = Pick<Partial<KeyCaller>, 'keyAgeMs' | 'endsSoonAt'>

/** The expected message, built without the code under test. */
function expectedOf(grant: Grant, now: number, dialect: Dialect, key: KeyNews = {}): object {
  const option = (key: string, value: string) => ({ header: { key, value }, append_action: 2 })
  const { idleMs, answerMs, retries, credential } = grant.model.resource.server
  const { upstreamModel = grant.sentName } = grant.model.resource.server
  const { counted } = grant.keyLimits ?? {}
  const answer: object[] = []
  putLimitHeaders(dialect, grant.states, now, (name, value) => answer.push(option(name, value)))
  if (key.keyAgeMs !== undefined) {
    answer.push(option('x-tollgate-key-age', String(Math.floor(key.keyAgeMs / 1_000))))
  }
  if (key.endsSoonAt !== undefined) {
    const written = new Date(key.endsSoonAt).toISOString().replace(/\.\d+/, '')
    answer.push(option('x-tollgate-key-expires', written))
  }
  return {
    status: {},
    ok_response: {
      headers: [
        option('x-maas-subscription', grant.subscription),
        option('x-tollgate-cluster', grant.cluster),
        option('x-tollgate-path', grant.upstreamPath),
        ...(grant.bodyNames === undefined ? [] : [option('x-tollgate-models', grant.bodyNames)]),
        ...(upstreamModel === undefined
          ? []
          : [option('x-tollgate-upstream-model', upstreamModel)]),
        ...(idleMs === undefined ? [] : [option('x-tollgate-idle', `${idleMs / 1_000}s`)]),
        ...(answerMs === undefined
          ? []
          : [option('x-envoy-upstream-rq-timeout-ms', String(answerMs))]),
        ...(retries === 2 ? [] : [option('x-envoy-max-retries', String(retries))]),
      ],
      headers_to_remove: ['authorization', 'x-api-key', 'proxy-authorization'],
      ...(answer.length > 0 && { response_headers_to_add: answer }),
    },
    dynamic_metadata: structOf({
      line: writeLineHead(
        {
          ...{ ...request, by: 'check', user: grant.caller.user, held: undefined },
          keyId: grant.caller.by === 'key' ? grant.caller.keyId : '',
          keyCounters: grant.metered ? counted : undefined,
        },
        formatSubject({
          ...{ subscription: grant.subscription, model: grant.model.key },
          payer: grant.metered ? grant.payer : undefined,
          group: grant.owningGroup,
        }),
      ),
      metered: grant.metered,
      ...(dialect === 'anthropic' && { dialect }),
      ...(credential && { credential: true }),
    }),
  }
}

test('a cached template gives the same bytes as a new one', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const memories: readonly TemplateOf[] = [createTemplates(), createTemplates(5)]
  for (let round = 0; round < 6_000; round += 1) {
    const now = start + random.below(86_400_000)
    const dialect = pick(random, ['openai', 'anthropic'] as const)
    const key = pick<KeyNews | undefined>(random, [
      undefined,
      {},
      { keyAgeMs: 0 },
      { keyAgeMs: 61_999, endsSoonAt: now },
    ])
    const grant = randomGrant(random, now)
    const plain = toCheckResponse(grant, now, dialect, key, undefined, request)
    for (const templateOf of memories) {
      const answer = toCheckResponse(grant, now, dialect, key, templateOf, request)
      if (!answer.equals(plain)) t.fail(`round ${round}: ${answer.toString('latin1')}`)
    }
    if (round % 20 !== 0) continue
    const decoded = JSON.parse(JSON.stringify(checkResponse.decode(plain)))
    t.strictSame(decoded, expectedOf(grant, now, dialect, key))
  }
})

test('returns the cached template for the same grant', async (t) => {
  const templateOf = createTemplates()
  const [model] = models
  const grant = { ...randomGrant(createRandom(1), start), ...(model && { model }) }
  const first = templateOf(grant, 'openai')
  t.equal(templateOf({ ...grant, upstreamPath: '/v1/other' }, 'openai'), first)
  t.not(templateOf(grant, 'anthropic'), first)
  t.equal(
    templateOf(grant, 'openai'),
    first,
    'the template of the other dialect does not replace it',
  )
})

test('drops the cached templates when there are too many', async (t) => {
  const grant = randomGrant(createRandom(2), start)
  const few = createTemplates(10)
  const oldest = few(grant, 'openai')
  for (let i = 0; i < 9; i += 1) few({ ...grant, subscription: `s-${i}` }, 'openai')
  t.equal(few(grant, 'openai'), oldest)
  few({ ...grant, subscription: 'one-more' }, 'openai')
  t.not(few(grant, 'openai'), oldest)
  const variants = createTemplates()
  const first = variants({ ...grant, owningGroup: 'g' }, 'openai')
  for (let i = 0; i < 16; i += 1) variants({ ...grant, owningGroup: `g-${i}` }, 'openai')
  t.not(variants({ ...grant, owningGroup: 'g' }, 'openai'), first, 'also for a single model')
})

test('responses do not share memory', async (t) => {
  const random = createRandom(3)
  const templateOf = createTemplates()
  const grants = Array.from({ length: 50 }, () => randomGrant(random, start))
  const told = () =>
    grants.map((grant) =>
      toCheckResponse(grant, start, 'openai', { keyAgeMs: 1 }, templateOf, request),
    )
  const first = told()
  const copies = first.map((answer) => Buffer.from(answer))
  told()
  t.strictSame(first, copies)
})

import { test } from 'tap'
import { toCountedLimit } from '../../../src/ratelimit/rules/counted-limits.ts'
import { counterOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import {
  type Increase,
  limitInForce,
  withIncreases,
} from '../../../src/ratelimit/rules/increases.ts'

const whose = { subscription: 'team', organization: '' }
const place = { resource: 'team', origin: 'subscription', whose } as const
const hour = { ms: 3_600_000 }
const written = {
  ...({ name: 'x', per: 'user', of: 'tokens', limit: 100, window: '1h' } as const),
  ...{ windowMs: hour.ms, models: undefined, enforce: true },
}
const limit = toCountedLimit(written, hour, place)
const shared = toCountedLimit({ ...written, name: 'all', per: 'subscription' }, hour, place)
const unnamed = { ...limit, limitName: undefined }
const { key } = counterOf(limit, 'ada')
const of = (...found: readonly Omit<Increase, 'counter'>[]) =>
  new Map([[key, found.map((each) => ({ counter: key, ...each }))]])

test('the higher of resource and increase holds', async (t) => {
  t.match(limitInForce(limit, key, of({ limit: 300, until: 50 }), 49), {
    ...{ limit: 300, increasedUntil: 50, policy: '"x";q=300;w=3600;qu="tokens"' },
    keyPrefix: limit.keyPrefix,
  })
  t.equal(limitInForce(limit, key, of({ limit: 90, until: 50 }), 49), limit)
  t.equal(limitInForce(limit, key, of({ limit: 2n ** 60n, until: 50 }), 49).limit, 2n ** 60n)
  t.equal(limitInForce(limit, 'of another', of({ limit: 300, until: 50 }), 49), limit)
})

test('the policies of a key are those of its raised limits', async (t) => {
  const own = { subscription: 'team', organization: '', user: 'ada', keyId: 'k' }
  const whose = { resource: 'key', origin: 'key', whose: own } as const
  const ofKey = toCountedLimit({ ...written, per: 'key' }, hour, whose)
  const { key: counter } = counterOf(ofKey, 'ada')
  const caller = { user: 'ada' }
  const keyLimits = { policies: ofKey.policy, charged: 'y' }
  const grant = { limits: [shared, ofKey], caller, keyLimits }
  const more = new Map([[counter, [{ counter, limit: 300, until: 9 }]]])
  const found = withIncreases(grant, more, 0).keyLimits
  t.strictSame(found, { policies: '"key-x";q=300;w=3600;qu="tokens"', charged: 'y' })
  t.equal(withIncreases(grant, of({ limit: 300, until: 9 }), 0), grant)
})

test('an increase ends by itself', async (t) => {
  const both = of({ limit: 300, until: 50 }, { limit: 200, until: 80 })
  const at = (now: number) => limitInForce(limit, key, both, now)
  t.strictSame(
    [49, 50, 79, 80].map((now) => [at(now).limit, at(now).increasedUntil]),
    [
      [300, 50],
      [200, 80],
      [200, 80],
      [100, undefined],
    ],
  )
})

test('of a grant only what is raised is another object, always the same', async (t) => {
  const grant = { limits: [unnamed, limit, shared], caller: { user: 'ada' }, pool: undefined }
  t.equal(withIncreases(grant, new Map(), 0), grant)
  const increases = of({ limit: 300, until: 50 })
  t.equal(withIncreases({ ...grant, caller: { user: 'bob' } }, increases, 0).limits, grant.limits)
  t.equal(withIncreases(grant, increases, 50), grant)
  const { limits } = withIncreases(grant, increases, 0)
  t.equal(limits[0], unnamed)
  t.equal(limits[1]?.limit, 300)
  t.equal(limits[2], shared)
  t.equal(withIncreases(grant, increases, 1).limits[1], limits[1])
  const all = counterOf(shared, 'ada').key
  const more = new Map([[all, [{ counter: all, limit: 500, until: 9 }]]])
  const [, , high] = withIncreases(grant, more, 0).limits
  t.match(counterOf(high ?? limit, 'ada'), { key: all, limit: 500 })
})

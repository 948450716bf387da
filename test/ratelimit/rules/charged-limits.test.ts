import { test } from 'tap'
import type { NamedLimit } from '../../../src/kinds/limits.ts'
import {
  chargedCounter,
  formatChargedLimit,
  parseChargedLimit,
  type RequestOwner,
} from '../../../src/ratelimit/rules/charged-limits.ts'
import { type LimitSource, toCountedLimit } from '../../../src/ratelimit/rules/counted-limits.ts'
import { counterOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import { holdSubjectOf, parseCounterKey } from '../../../src/ratelimit/rules/counter-key.ts'
import { parseWindowText, type Window } from '../../../src/ratelimit/rules/windows.ts'

const whose: RequestOwner = {
  user: 'ada',
  subscription: 'team',
  keyId: 'k1',
  pool: 'red',
  organization: 'acme',
}
const minute: Window = { ms: 60_000 }
const month = parseWindowText('month15@Europe/Zurich') as Window

const places: readonly (readonly [
  LimitSource['resource'],
  LimitSource['origin'],
  NamedLimit['per'],
  string,
])[] = [
  ['team', 'subscription', 'user', 'team|#x|K|ada'],
  ['team', 'subscription', 'group', 'team|#x|K|red'],
  ['team', 'subscription', 'subscription', 'team|#x|K|'],
  ['ModelRef/llm/small', 'model', 'user', 'ModelRef/llm/small|#x|K|ada'],
  ['ModelRef/llm/small', 'model', 'subscription', 'ModelRef/llm/small|#x|K|team'],
  ['ModelRef/llm/small', 'model', 'model', 'ModelRef/llm/small|#x|K|'],
  ['Tenant', 'tenant', 'user', 'Tenant|#x|K|ada'],
  ['Tenant', 'tenant', 'organization', 'Tenant|#x|K|acme'],
  ['Tenant', 'tenant', 'installation', 'Tenant|#x|K|'],
  ['key', 'key', 'key', 'team|@k1#x|K|ada'],
  ['key', 'subscription', 'user', 'key|#x|K|ada'],
]

test('a limit and the line that names it have the same counter', async (t) => {
  for (const [resource, origin, per, key] of places) {
    for (const [of, window, counted] of [
      ['tokens', minute, 'tokens-60000'],
      ['cost', month, 'cost-month15@Europe/Zurich'],
    ] as const) {
      const written: NamedLimit = {
        ...{ name: 'x', per, of, limit: 5, window: '', windowMs: 0 },
        ...{ models: undefined, enforce: true },
      }
      const { pool, user, ...known } = whose
      const of1 = { ...known, ...(per === 'key' && { user }) }
      const limit = toCountedLimit(written, window, { resource, origin, whose: of1 })
      const counter = counterOf(limit, user, pool)
      t.equal(counter.key, key.replaceAll('|', '\n').replace('K', counted), `${per} of ${resource}`)
      const text = formatChargedLimit({ resource, name: 'x', kind: of, per, window })
      const charged = parseChargedLimit(text)
      t.strictSame(charged && { limit: 5, ...chargedCounter(charged, whose) }, counter, text)
    }
  }
})

test('what belongs to one user is together, and each pool by itself', async (t) => {
  const subjects = places.map(([, , , key]) =>
    holdSubjectOf(parseCounterKey(key.replaceAll('|', '\n'))),
  )
  t.equal(subjects[0], 'team\nada')
  t.equal(subjects[1], 'team\nred')
  t.equal(subjects[9], 'team\nada')
})

test('any other text names no limit', async (t) => {
  for (const text of [
    '',
    'team x tokens user',
    'team x tokens user 60000 more',
    'team x coins user 60000',
    'team x tokens anybody 60000',
    'team x tokens toString 60000',
    'team x cost user month1@Nowhere/Land',
    `team ${'x'.repeat(64)} tokens user 60000`,
  ]) {
    t.equal(parseChargedLimit(text), undefined, text)
  }
})

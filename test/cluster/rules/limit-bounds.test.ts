import { test } from 'tap'
import { limitBounds } from '../../../src/cluster/rules/limit-bounds.ts'
import { maxOvershoot } from '../../../src/cluster/rules/overshoot.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const reserving = { admission: { mode: 'reserve', overshootPercent: 10 } }
const owner = { users: ['ada'] }
const pool = { name: 'pool', per: 'subscription', of: 'cost', limit: '9000000000', window: 'month' }

function paying(name: string, models: readonly string[], limits: readonly object[], more = {}) {
  const rates = Object.fromEntries(models.map((model) => [`llm/${model}`, [[5, '1m']] as const]))
  const ofModels = { billingRate: { perToken: '1' }, concurrency: 3 }
  const document = subscription(name, owner, rates, { ofModels, ...more })
  return { ...document, spec: { ...document.spec, limits } }
}

function boundsOf(...documents: readonly unknown[]) {
  return limitBounds(snapshotOf(...documents)).map(
    ({ resource, name, beyond, because, inProgress }) =>
      [`${resource} ${name}`, beyond ?? because.join('; '), inProgress] as const,
  )
}

test('a pool has a bound if all that draw on it reserve', async (t) => {
  const limits = [{ name: 'all', per: 'model', limit: 1_000, window: '1m' }]
  const [small, large] = [modelRef('small', { limits }), modelRef('large', { limits })]
  const one = paying('one', ['small', 'large'], [pool], reserving)
  t.strictSame(boundsOf(small, large, one), [
    ['ModelRef/llm/large all', 100, undefined],
    ['ModelRef/llm/small all', 100, undefined],
    ['one pool', 900_000_000_000_000_000n, undefined],
  ])
  t.equal(maxOvershoot(snapshotOf(small, large, one)), 100, 'money is no number of tokens')
  t.strictSame(boundsOf(small, large, one, paying('two', ['small'], [])), [
    ['ModelRef/llm/large all', 100, undefined],
    ['ModelRef/llm/small all', 'two does not reserve', undefined],
    ['one pool', 900_000_000_000_000_000n, undefined],
  ])
  const unruly = modelRef('large', { output: { honoursMaxTokens: false } })
  t.match(boundsOf(small, unruly, one), [
    [],
    ['one pool', 'the server of llm/large ignores maxima'],
  ])
})

test('else shared limits on concurrency say what is under way', async (t) => {
  const slots = { name: 'slots', of: 'concurrency', per: 'model', limit: 4 }
  const [small, large] = [
    modelRef('small', { limits: [slots] }),
    modelRef('large', { limits: [slots] }),
  ]
  const person = { name: 'person', of: 'output', limit: 5, window: 'day' }
  const free = 'one does not reserve'
  t.strictSame(boundsOf(small, large, paying('one', ['small', 'large'], [pool, person])), [
    ['one person', free, 6],
    ['one pool', free, 8],
  ])
  const both = { name: 'both', of: 'concurrency', per: 'subscription', limit: 2 }
  const calls = { name: 'calls', of: 'requests', per: 'subscription', limit: 2, window: '1m' }
  t.strictSame(
    boundsOf(
      small,
      large,
      paying(
        'one',
        ['small', 'large'],
        [pool, both, calls, { ...pool, name: 'b', enforce: false }],
      ),
    ),
    [['one pool', free, 2]],
    'requests are exact, and what refuses nothing has no bound',
  )
  t.strictSame(boundsOf(small, modelRef('large'), paying('one', ['small', 'large'], [pool])), [
    ['one pool', free, undefined],
  ])
})

import { test } from 'tap'
import {
  afterSight,
  claimsOf,
  keptMs,
  type Missing,
  maxStepMs,
  type Sight,
  type Wish,
} from '../../../src/models/rules/name-owners.ts'
import type { Model } from '../../../src/models/rules/snapshot.ts'
import { modelRef, snapshotOf } from '../../support/documents.ts'
import { createRandom } from '../../support/random.ts'

const minute = 60_000

/** A model `<namespace>/<name>`, created at this time. */
function modelOf(namespace: string, name: string, created?: string): Model {
  const document = modelRef(name, {}, namespace)
  const metadata = { ...document.metadata, ...(created && { creationTimestamp: created }) }
  return snapshotOf({ ...document, metadata }).models.get(`${namespace}/${name}`)!
}

/** The state after these observations, each some minutes after the one before. */
function after(...sights: readonly (readonly [minutes: number, sight: Sight])[]) {
  let now = 1_000_000
  let missing: Missing | undefined
  for (const [minutes, sight] of sights) {
    now += minutes * minute
    missing = afterSight(missing, sight, now)
  }
  return missing === undefined ? undefined : missing.ms / minute
}

test('a name is missing while its server answers without it', async (t) => {
  t.equal(after([5, 'missing']), 0)
  t.equal(after([5, 'missing'], [5, 'missing'], [3, 'missing']), 8)
  t.equal(after([5, 'missing'], [5, 'listed']), undefined)
  t.equal(after([5, 'missing'], [5, 'listed'], [5, 'missing']), 0, 'a list that flaps starts anew')
  t.equal(after([5, 'listed']), undefined)
})

test('silence and a clock that jumps give up nothing', async (t) => {
  t.equal(after([5, 'silent'], [6_000, 'silent']), undefined)
  t.equal(after([5, 'missing'], [5, 'missing'], [6_000, 'silent']), 5)
  t.equal(after([5, 'missing'], [5, 'missing'], [6_000, 'missing']), 15, 'ten minutes at most')
  t.equal(after([5, 'missing'], [-6_000, 'missing'], [5, 'missing']), 5)
})

test('no name is given up before it was missing for an hour', async (t) => {
  const { below } = createRandom(7)
  const sights: readonly Sight[] = ['missing', 'missing', 'missing', 'missing', 'listed', 'silent']
  let givenUp = 0
  for (let round = 0; round < 500; round += 1) {
    let [now, answered, last] = [0, 0, 0]
    let missing: Missing | undefined
    for (let step = 0; step < 60; step += 1) {
      // Now and then the clock jumps, by up to a year in each direction.
      now += below(20) === 0 ? (below(1_000) - 500) * 24 * 60 * minute : below(9) * minute
      const sight = sights[below(sights.length)] as Sight
      // What really passed, counted without the rule: between observations at most ten minutes.
      if (sight === 'listed') [answered, last] = [0, Number.NaN]
      if (sight === 'missing') {
        if (missing !== undefined) answered += Math.max(0, Math.min(now - last, maxStepMs))
        last = now
      }
      missing = afterSight(missing, sight, now)
      if (missing !== undefined && missing.ms >= keptMs) {
        t.ok(answered >= keptMs - 1, `${answered} ms`)
        givenUp += 1
        missing = undefined
        answered = 0
      }
    }
  }
  t.ok(givenUp > 10, 'some are given up')
})

test('the earliest ModelRef of those that wish a name claims it', async (t) => {
  const wishes: Wish[] = [
    { name: 'n', server: 's-1', model: modelOf('b', 'm', '2026-01-02T00:00:00Z') },
    { name: 'n', server: 's-2', model: modelOf('c', 'm', '2026-01-01T00:00:00Z') },
    { name: 'n', server: 's-3', model: modelOf('a', 'm') },
    { name: 'tie', server: 's-4', model: modelOf('b', 'm') },
    { name: 'tie', server: 's-5', model: modelOf('a', 'z') },
  ]
  const expected = {
    n: { namespace: 'c', server: 's-2' },
    tie: { namespace: 'a', server: 's-5' },
  }
  t.strictSame(Object.fromEntries(claimsOf(wishes, new Map())), expected)
  t.strictSame(Object.fromEntries(claimsOf(wishes.toReversed(), new Map())), expected)
})

test('claims are shared fairly between namespaces', async (t) => {
  const [greedy, small] = [modelOf('greedy', 'm'), modelOf('small', 'm')]
  const wishesOf = (model: Model, count: number): Wish[] =>
    Array.from({ length: count }, (_, i) => ({ name: `${model.key}-${i}`, server: 's', model }))
  const countOf = (wishes: readonly Wish[], held: ReadonlyMap<string, number> = new Map()) => {
    const owners = [...claimsOf(wishes, held, 100).values()]
    return ['greedy', 'small'].map((one) => owners.filter((each) => each.namespace === one).length)
  }
  t.strictSame(countOf([...wishesOf(greedy, 1_000), ...wishesOf(small, 10)]), [90, 10])
  t.strictSame(countOf([...wishesOf(greedy, 1_000), ...wishesOf(small, 70)]), [50, 50])
  t.strictSame(countOf(wishesOf(small, 10), new Map([['greedy', 100]])), [0, 10])
  t.strictSame(countOf(wishesOf(greedy, 10), new Map([['greedy', 100]])), [0, 0])
})

import { test } from 'tap'
import { createEstimators } from '../../../../src/ratelimit/rules/estimates/estimators.ts'
import { estimatorOwner } from '../../../../src/ratelimit/rules/estimates/held-amounts.ts'

const observed = { bytes: 400, maxOutput: undefined, input: 100, output: 9_000, isCut: false }

test('each user of a subscription has its own, without its name', async (t) => {
  const owners = [
    estimatorOwner('one', 'ada'),
    estimatorOwner('one', 'bob'),
    estimatorOwner('two', 'ada'),
  ]
  t.equal(new Set(owners).size, 3)
  t.notMatch(owners.join(), /ada|bob/)
  const estimators = createEstimators()
  const [ada, bob] = owners.map((owner) => estimators.of(owner, 'llm/a'))
  const before = bob?.expect(observed, undefined)
  for (let i = 0; i < 50; i += 1) ada?.learn(observed)
  t.same(bob?.expect(observed, undefined), before)
})

test('the one that was used least recently is forgotten', async (t) => {
  const estimators = createEstimators(2)
  const [a] = [estimators.of('a', 'llm/a'), estimators.of('b', 'llm/a')]
  t.equal(estimators.of('a', 'llm/a'), a)
  t.equal(estimators.ifRoom('c', 'llm/a'), undefined, 'none is forgotten for what others know')
  t.equal(estimators.ifRoom('a', 'llm/a'), a)
  estimators.of('c', 'llm/a')
  t.same(
    [...estimators.all()].map(({ owner }) => owner),
    ['a', 'c'],
  )
})

test('where all were used since their turns one is forgotten, and each use counts once', async (t) => {
  const estimators = createEstimators(3)
  const owners = () => [...estimators.all()].map(({ owner, model }) => `${owner} ${model}`)
  const use = (...names: string[]) => {
    for (const name of names) estimators.of(name, 'llm/a')
  }
  use('a', 'b', 'c')
  use('a', 'b', 'c', 'd')
  t.strictSame(owners(), ['b llm/a', 'c llm/a', 'd llm/a'])
  use('b', 'e')
  t.strictSame(owners(), ['d llm/a', 'b llm/a', 'e llm/a'], 'c was not used again')
  const before = estimators.of('d', 'llm/a')
  estimators.of('d', 'llm/b')
  t.equal(owners().length, 3)
  t.equal(estimators.of('d', 'llm/a'), before, 'a model more is another estimator')
  t.equal(estimatorOwner('one', 'ada'), estimatorOwner('one', 'ada'))
})

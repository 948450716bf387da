import { test } from 'tap'
import { createSeries, type SeriesSet } from '../../src/telemetry/series.ts'

interface Figures {
  calls: number
  tokens: number
}

function createCallSeries(most: number): SeriesSet<Figures> {
  return createSeries(most, () => ({ calls: 0, tokens: 0 }))
}

function shown({ all }: SeriesSet<Figures>): Record<string, number> {
  return Object.fromEntries(
    [...all].map(({ user, subscription, model, figures }) => [
      `${user} ${subscription} ${model}`,
      figures.calls,
    ]),
  )
}

test('each combination has a series of its own', async (t) => {
  const series = createCallSeries(10)
  for (const [user, subscription, model] of [
    ['ada', 'basic', 'llm/a'],
    ['ada', 'basic', 'llm/b'],
    ['ada', 'more', 'llm/a'],
    ['bob', 'basic', 'llm/a'],
    ['ada', 'basic', 'llm/a'],
  ] as const) {
    series.find(user, subscription, model).calls += 1
  }
  t.strictSame(shown(series), {
    'ada basic llm/a': 2,
    'bob basic llm/a': 1,
    'ada basic llm/b': 1,
    'ada more llm/a': 1,
  })
  t.equal(series.size, 4)
})

test('names may contain anything', async (t) => {
  const series = createCallSeries(10)
  for (const user of ['', '__proto__', 'constructor', 'a\nb', 'ä']) {
    series.find(user, user, user).calls += 1
  }
  t.equal(series.size, 5)
  t.strictSame(
    [...series.all].map(({ figures }) => figures.calls),
    [1, 1, 1, 1, 1],
  )
})

test('beyond the bound everything is counted in one series', async (t) => {
  const series = createCallSeries(3)
  for (let user = 0; user < 1_000; user += 1) {
    series.find(`user-${user}`, 'basic', 'llm/a').calls += 1
    series.find(`user-${user}`, 'basic', 'llm/a').tokens += 5
  }
  t.equal(series.size, 3)
  t.equal([...series.all].length, 3)
  t.strictSame(series.overflow, { calls: 997, tokens: 4_985 })
})

test('a series that is unused for long is removed when room is needed', async (t) => {
  const series = createCallSeries(3)
  const use = (...users: readonly string[]) => {
    for (const user of users) series.find(user, 'basic', 'llm/a').calls += 1
  }
  use('ada', 'bob', 'cy')
  series.age()
  use('ada')
  use('dora')
  t.equal(series.overflow.calls, 1, 'bob and cy were used recently')
  series.age()
  use('cy')
  use('dora')
  t.strictSame(Object.keys(shown(series)).sort(), [
    'ada basic llm/a',
    'cy basic llm/a',
    'dora basic llm/a',
  ])
  use('bob')
  t.equal(series.overflow.calls, 2, 'the set is full again')
})

test('nothing is removed while there is room', async (t) => {
  const series = createCallSeries(3)
  series.find('ada', 'basic', 'llm/a').calls += 7
  for (let generation = 0; generation < 5; generation += 1) series.age()
  series.find('bob', 'basic', 'llm/a').calls += 1
  t.strictSame(shown(series), { 'ada basic llm/a': 7, 'bob basic llm/a': 1 })
})

test('a removed series starts at 0 again', async (t) => {
  const series = createCallSeries(1)
  series.find('ada', 'basic', 'llm/a').calls += 7
  series.age()
  series.age()
  series.find('bob', 'more', 'llm/b').calls += 1
  t.strictSame(shown(series), { 'bob more llm/b': 1 })
  series.age()
  series.age()
  series.find('ada', 'basic', 'llm/a').calls += 1
  t.strictSame(shown(series), { 'ada basic llm/a': 1 })
  t.equal(series.size, 1)
})

test('series with and without a group are separate', async (t) => {
  const series = createCallSeries(10)
  series.find('ada', 'basic', '', 'red').calls += 1
  series.find('ada', 'basic', '', '').calls += 2
  series.find('red\nada', 'basic', '', '').calls += 4
  t.strictSame(
    [...series.all].map(({ user, group, figures }) => [user, group, figures.calls]),
    [
      ['ada', 'red', 1],
      ['ada', '', 2],
      ['red\nada', '', 4],
    ],
  )
})

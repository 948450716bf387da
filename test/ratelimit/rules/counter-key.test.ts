import { test } from 'tap'
import {
  counterKey,
  holdSubjectOf,
  limitKindOfKey,
  parseCounterKey,
  unitText,
} from '../../../src/ratelimit/rules/counter-key.ts'

test('a key is read as it was written', async (t) => {
  for (const user of ['alice', '', 'a\nb', '\n\n', 'a@1']) {
    for (const model of ['llm/small', '@6f1c']) {
      const parts = { subscription: 'basic', model, counted: 'requests-60000', user }
      t.strictSame(parseCounterKey(counterKey(parts)), parts)
      t.equal(holdSubjectOf(parts), `basic\n${user}`)
    }
  }
})

test('what is counted tells its kind', async (t) => {
  for (const [kind, windowMs, counted] of [
    ['tokens', 60_000, '60000'],
    ['requests', 60_000, 'requests-60000'],
    ['concurrency', 0, 'concurrency'],
  ] as const) {
    t.equal(unitText(kind, windowMs), counted)
    t.equal(limitKindOfKey({ counted }), kind)
  }
})

import { test } from 'tap'
import { createConfidence } from '../../../src/store/revocations/confidence.ts'

const never = Number.NEGATIVE_INFINITY

/** A watch that only the test moves. */
function create() {
  const watch = { at: 0, pausedAt: never, now: () => watch.at, resumedAt: () => watch.pausedAt }
  return { watch, confidence: createConfidence({ watch, countsMs: 4_000 }) }
}

test('nothing is believed before the first answer', (t) => {
  const { confidence } = create()
  t.equal(confidence.state(), 'unconfirmed')
  t.equal(confidence.ageMs(), Number.POSITIVE_INFINITY)
  t.end()
})

test('the age counts from when it was asked', (t) => {
  const { watch, confidence } = create()
  watch.at = 130
  confidence.answered(100)
  t.equal(confidence.state(), 'confirmed')
  t.equal(confidence.ageMs(), 30)
  confidence.answered(50)
  t.equal(confidence.ageMs(), 30, 'an older answer does not make it older')
  t.end()
})

test('an answer counts for a while only', (t) => {
  const { watch, confidence } = create()
  confidence.answered(0)
  watch.at = 3_999
  t.equal(confidence.state(), 'confirmed')
  watch.at = 4_000
  t.equal(confidence.state(), 'unconfirmed')
  t.end()
})

test('after a failure the store is away, for a while', (t) => {
  const { watch, confidence } = create()
  confidence.answered(0)
  watch.at = 1_500
  confidence.failed(1_000)
  t.equal(confidence.state(), 'away')
  watch.at = 5_499
  t.equal(confidence.state(), 'away')
  watch.at = 5_500
  t.equal(confidence.state(), 'unconfirmed')
  confidence.answered(5_400)
  t.equal(confidence.state(), 'confirmed')
  t.end()
})

test('the later of two questions decides', (t) => {
  const { watch, confidence } = create()
  watch.at = 300
  confidence.failed(100)
  confidence.answered(200)
  t.equal(confidence.state(), 'confirmed')
  confidence.failed(150)
  t.equal(confidence.state(), 'confirmed', 'a late failure of an earlier one')
  t.end()
})

for (const [what, happen] of [
  ['a lost listener', ({ confidence }) => confidence.suspect()],
  ['a pause', ({ watch }) => (watch.pausedAt = watch.at)],
] as const satisfies readonly [string, (made: ReturnType<typeof create>) => void][]) {
  test(`${what} asks for a new answer`, (t) => {
    const made = create()
    const { watch, confidence } = made
    confidence.answered(0)
    watch.at = 1_000
    happen(made)
    t.equal(confidence.state(), 'unconfirmed')
    watch.at = 1_100
    confidence.answered(900)
    t.equal(confidence.state(), 'unconfirmed', 'one that was asked for before')
    confidence.answered(1_050)
    t.equal(confidence.state(), 'confirmed')
    t.end()
  })

  test(`a question from before ${what} does not fail after it`, (t) => {
    const made = create()
    const { watch, confidence } = made
    confidence.answered(0)
    watch.at = 9_000
    happen(made)
    confidence.failed(8_000)
    t.equal(confidence.state(), 'unconfirmed')
    watch.at = 9_200
    confidence.failed(9_100)
    t.equal(confidence.state(), 'away')
    t.end()
  })
}

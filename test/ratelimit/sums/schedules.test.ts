import { test } from 'tap'
import { createRandom } from '../../support/random.ts'
import '../../support/time-limit.ts'
import { type Kind, kinds, type Outcome, runSchedule } from './schedules.ts'

/** Of those that need not be exact: what they may lack is a row of the table of faults. */
const mayLack: readonly Kind[] = ['pods', 'copies', 'clocks', 'deleted', 'checkpoint']
/** Schedules of a kind; `npm run soak` runs thousands. */
const count = Number(process.env.SCHEDULES ?? 6)

for (const kind of kinds) {
  const isExact = !mayLack.includes(kind)
  const claim = isExact ? 'are exact in the end' : 'are never too high'
  test(`sums ${claim}: ${kind}`, async (t) => {
    const { seed } = createRandom()
    t.comment(`SEED=${seed}`)
    const wrong: Outcome[] = []
    let compared = 0
    // Where most can go wrong.
    const most = kind === 'exact' || kind === 'taken' ? 3 * count : count
    for (let i = 0; i < most; i += 1) {
      const outcome = await runSchedule(seed + i, kind)
      compared += outcome.compared
      const { high, low, above, disagree } = outcome
      const isWrong = high + above > 0 || (isExact && low + disagree > 0)
      if (isWrong) wrong.push(outcome)
    }
    t.strictSame(wrong, [])
    t.ok(compared >= 2 * most, `${compared} windows`)
  })
}

import { test } from 'tap'
import { policies, replay } from '../../../../bench/traces/replay.ts'
import { kinds, makeTrace } from '../../../../bench/traces/trace.ts'
import {
  type Admission,
  admitRequest,
  fits,
  maxOutputAlone,
  type Room,
} from '../../../../src/ratelimit/rules/estimates/admit.ts'
import type { Expectation } from '../../../../src/ratelimit/rules/estimates/estimator.ts'
import {
  firstOutputP99,
  type HeldAmount,
  type HeldSums,
  heldAmountOf,
  modelFactors,
  noHolds,
  withHold,
} from '../../../../src/ratelimit/rules/estimates/held-amounts.ts'
import { createRandom } from '../../../support/random.ts'

const random = createRandom()
const expected: Expectation = {
  ...{ input: 100, inputVariance: 400, output: 200, outputVariance: 10_000 },
  ...{ floor: 900, beyondRoom: 900, isSeveral: false, least: 1, worst: 4_096 },
}

function roomOf(limit: number, used: number, holds: readonly HeldAmount[] = []): Room {
  const held = holds.reduce<HeldSums>((sums, hold) => withHold(sums, hold, 1), noHolds)
  return { limit, used, held }
}

function heldBy(admission: Admission): Extract<Admission, { outcome: 'held' }> {
  if (admission.outcome !== 'held') throw new Error(admission.outcome)
  return admission
}

test('a request alone is admitted while anything is left', async (t) => {
  for (const used of [0, 500, 999]) {
    t.equal(admitRequest([roomOf(1_000, used)], expected, 0, true).outcome, 'held', `${used} used`)
  }
  t.equal(admitRequest([roomOf(1_000, 1_000)], expected, 0.25, true).outcome, 'spent')
})

test('what is held refuses as busy, what is used as spent', async (t) => {
  const room = roomOf(10_000, 0)
  const holds: HeldAmount[] = []
  for (let open = room; ; ) {
    const admission = admitRequest([open], expected, 0.25, true)
    if (admission.outcome !== 'held') {
      t.equal(admission.outcome, 'busy')
      break
    }
    holds.push(admission.hold)
    open = roomOf(10_000, 0, holds)
  }
  t.ok(holds.length > 3 && holds.length < 34, `${holds.length} at once`)
  t.equal(admitRequest([roomOf(10_000, 10_000, holds)], expected, 0.25, true).outcome, 'spent')
})

test('what is left of the greatest budget is no rounded figure', async (t) => {
  const limit = 9_000_000_000_000_000_000n
  // Doubles there are 1,024 apart.
  const amount = (most: number) => ({ mean: 1, variance: 0, output: 0, most })
  for (const [left, most, does] of [
    [1_000n, 1_000, true],
    [1_000n, 1_001, false],
    [1_500n, 1_500, true],
    [1n, 2, false],
  ] as const) {
    const room = { limit, used: limit - left, held: withHold(noHolds, amount(0), 1) }
    const own = left < 2n ? { ...amount(most), mean: most } : amount(most)
    t.equal(fits(room, own, 0), does, `${most} of ${left}`)
  }
})

test('estimates bind where ceilings have room', async (t) => {
  const hold = heldAmountOf(expected, 900)
  const count = (overshoot: number) => {
    const open: HeldAmount[] = []
    while (fits(roomOf(10_000, 0, open), hold, overshoot)) open.push(hold)
    return open.length
  }
  t.ok(count(9) < 10_000 / hold.mean, `${count(9)} at once`)
  t.equal(count(9), count(99))
})

test('a limit on cost keeps as many deviations free as one on tokens of one price', async (t) => {
  // A token costs 2,000 nano-units, in which limits on cost are counted.
  const { cost } = modelFactors({ perToken: '0.000002' })
  const varied = { ...expected, outputVariance: 1_000_000 }
  for (const limit of [3_000, 10_000, 40_000]) {
    const count = (of: Partial<Room>, scale: number) => {
      const hold = heldAmountOf(varied, 900, of.factors)
      const open: HeldAmount[] = []
      while (fits({ ...roomOf(scale * limit, 0, open), ...of }, hold, 99)) open.push(hold)
      return open.length
    }
    t.equal(count({ factors: cost }, 2_000), count({}, 1), `${limit} tokens`)
  }
})

test('every limit must have room', async (t) => {
  const open = heldAmountOf(expected, 900)
  const wide = roomOf(1_000_000, 0, [open])
  const narrow = roomOf(1_000, 600, [open])
  t.equal(admitRequest([wide], expected, 0.25, true).outcome, 'held')
  t.equal(admitRequest([wide, narrow], expected, 0.25, true).outcome, 'busy')
  t.equal(admitRequest([wide, roomOf(100, 100)], expected, 0.25, true).outcome, 'spent')
})

test('a ceiling shrinks with the room, but not below what most answers need', async (t) => {
  const open = heldAmountOf(expected, 900)
  const caps = [1e6, 20_000, 10_000, 6_000].map(
    (limit) => heldBy(admitRequest([roomOf(limit, 0, [open])], expected, 0.25, true)).ceiling,
  )
  t.strictSame(caps.slice(0, 2), [4_096, 4_096])
  t.ok((caps[2] as number) < 4_096 && (caps[2] as number) >= 900)
  t.ok((caps[3] as number) >= 900)
})

test('without a way to send it, there is no ceiling', async (t) => {
  const { ceiling, hold } = heldBy(admitRequest([roomOf(1e6, 0)], expected, 0.25, false))
  t.equal(ceiling, Number.POSITIVE_INFINITY)
  t.equal(hold.most, 1_000)
})

test('several answers never pass the room', async (t) => {
  const answers = (choices: number, more: object = {}): Expectation => ({
    ...expected,
    ...{ floor: choices * 900, least: choices, worst: choices * 4_096 },
    ...{ beyondRoom: 900, isSeveral: choices > 1, ...more },
  })
  const capOf = (used: number, wants: Expectation) =>
    heldBy(admitRequest([roomOf(10_000, used)], wants, 0.25, true)).ceiling
  t.equal(capOf(0, answers(5)), 4_500, 'all that they need')
  t.equal(capOf(0, answers(128)), 12_400, 'what is left, with its overshoot')
  t.equal(capOf(9_000, answers(128)), 3_400)
  t.equal(capOf(9_999, answers(1)), 900, 'what one answer needs')
  t.equal(admitRequest([roomOf(1_000, 999)], answers(2), 0, true).outcome, 'busy')
  t.equal(capOf(0, answers(50, { input: 90_000 })), 900, 'though their input is too much')
  t.equal(admitRequest([roomOf(10_000, 9_000)], answers(3_401), 0.25, true).outcome, 'busy')
  t.equal(admitRequest([roomOf(10_000, 9_900)], answers(2_000), 0, true).outcome, 'busy')
  t.equal(capOf(0, answers(1, { least: 9_000, worst: 20_000 })), 9_000, 'a minimum in the room')
  t.equal(
    admitRequest([roomOf(10_000, 4_000)], answers(1, { least: 9_000 }), 0.25, true).outcome,
    'busy',
  )
})

test('several answers without a ceiling are within the room, or not admitted', async (t) => {
  const outcomeOf = (used: number, choices: number) => {
    const floor = choices * 900
    const more = { floor, least: floor, worst: Number.POSITIVE_INFINITY, isSeveral: choices > 1 }
    return admitRequest([roomOf(10_000, used)], { ...expected, ...more }, 0.25, false).outcome
  }
  t.equal(outcomeOf(0, 13), 'held')
  t.equal(outcomeOf(0, 14), 'busy')
  t.equal(outcomeOf(9_000, 3), 'held', 'with the overshoot')
  t.equal(outcomeOf(9_000, 4), 'busy')
  t.equal(outcomeOf(9_999, 1), 'held', 'one answer may pass it')
})

test('what an unused limit can give is known beforehand', async (t) => {
  t.equal(maxOutputAlone([{ limit: 10_000 }, { limit: 90_000 }], expected, 0.25), 12_400)
  t.equal(maxOutputAlone([{ limit: 500 }], expected, 0.25), 900, 'one answer may pass it')
  const long = { ...expected, beyondRoom: 120_000 }
  t.equal(
    maxOutputAlone([{ limit: 500 }], long, 0.25),
    firstOutputP99,
    'within what is expected at first',
  )
  t.equal(maxOutputAlone([{ limit: 50_000 }], long, 0.25), 62_400, 'or within the limit')
})

/** Admits, settles within the ceilings and repeats; returns the most that any moment exceeded. */
function worstExcess(limit: number, promised: number, decide: typeof admitRequest): number {
  let used = 0
  let alone = 0
  let worst = Number.NEGATIVE_INFINITY
  const open: HeldAmount[] = []
  for (let i = 0; i < 400; i += 1) {
    const floorOfOne = 300 + random.below(random.below(4) === 0 ? 160_000 : 600)
    const choices = random.below(3) === 0 ? 1 + random.below(5_000) : 1
    const wants: Expectation = {
      input: random.below(500),
      inputVariance: random.below(5_000),
      output: 1 + random.below(300),
      outputVariance: random.below(50_000),
      ...{ floor: choices * floorOfOne, beyondRoom: floorOfOne, isSeveral: choices > 1 },
      least: choices * (random.below(9) === 0 ? 1 + random.below(5_000) : 1),
      worst: random.below(3) === 0 ? Number.POSITIVE_INFINITY : choices * (1 + random.below(5_000)),
    }
    const room = roomOf(limit, used, open)
    const admission = decide([room], wants, 0.25, true)
    if (admission.outcome === 'held') {
      // Only one answer passes the bound, by what most need, within an unused limit.
      const most = Math.max(firstOutputP99, Math.floor(limit * 1.25) - wants.input)
      const isOver = choices === 1 || wants.input >= Math.floor(limit * 1.25)
      const own = isOver ? Math.min(floorOfOne, most) : 0
      if (open.length === 0 && own > 0) alone = Math.max(alone, used + wants.input + own)
      open.push(admission.hold)
    }
    // Half of the answers use all that they may.
    while (open.length > 0 && random.below(3) === 0) {
      const [ended] = open.splice(random.below(open.length), 1) as [HeldAmount]
      used += random.below(2) === 0 ? ended.most : random.below(ended.most + 1)
    }
    worst = Math.max(worst, used - Math.max(promised, alone))
  }
  for (const { most: ceiling } of open) used += ceiling
  return Math.max(worst, used - Math.max(promised, alone))
}

test('no order of requests and answers passes the bound', async (t) => {
  for (let i = 0; i < 200; i += 1) {
    const limit = 1 + random.below(60_000)
    t.ok(worstExcess(limit, Math.floor(limit * 1.25), admitRequest) <= 0, `seed ${random.seed}`)
  }
})

test('the same test notices a bound that is off by a tenth', async (t) => {
  const loose: typeof admitRequest = (rooms, wants, overshoot, canLimitOutput) =>
    admitRequest(rooms, wants, overshoot + 0.1, canLimitOutput)
  const excesses = Array.from({ length: 200 }, () => worstExcess(20_000, 25_000, loose))
  t.ok(Math.max(...excesses) > 0)
})

test('a hold more never makes room', async (t) => {
  for (let i = 0; i < 500; i += 1) {
    const wanted = { ...expected, worst: 1 + random.below(9_000) }
    const hold = heldAmountOf(wanted, Math.max(900, random.below(9_000)))
    const open = Array.from({ length: random.below(5) }, () => hold)
    const room = roomOf(random.below(20_000), random.below(9_000), open)
    const fuller = { ...room, held: withHold(room.held, hold, 1) }
    if (fits(fuller, hold, 0.25)) t.ok(fits(room, hold, 0.25), `seed ${random.seed}`)
  }
  t.pass()
})

test('replayed traffic stays within the bound and is seldom refused falsely', async (t) => {
  for (const kind of kinds) {
    const outcome = replay(makeTrace(kind, 1, 1.5, 30), policies.ours(0.25), 0.25)
    t.ok(outcome.beyondBound <= 0, `${kind}: ${outcome.beyondBound}`)
    if (kind === 'chat' || kind === 'agent') {
      t.ok(outcome.falsePercent <= 8, `${kind}: ${outcome.falsePercent} % refused falsely`)
    }
  }
})

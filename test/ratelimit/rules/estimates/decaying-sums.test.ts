import { test } from 'tap'
import {
  DecayingSums,
  type SumsDelta,
} from '../../../../src/ratelimit/rules/estimates/decaying-sums.ts'
import { createRandom } from '../../../support/random.ts'

const random = createRandom()
const decay = 0.9
const near = (a: number | undefined, b: number | undefined) =>
  Math.abs((a ?? 0) - (b ?? 0)) <= 1e-9 * (1 + Math.abs(b ?? 0))

/** What all processes have shared, as the database adds it. */
function add(known: Float64Array | undefined, { kept, sums, whole }: SumsDelta): Float64Array {
  return known?.map((sum, i) => sum * kept + (sums[i] as number)) ?? Float64Array.from(whole)
}

test('older vectors count less', async (t) => {
  const sums = new DecayingSums(decay, Float64Array.of(10, 0))
  for (const amount of [1, 2]) {
    sums.next()
    sums.put(1, amount)
  }
  const [first, second] = sums.read()
  t.ok(near(first, 10 * decay * decay))
  t.ok(near(second, 1 * decay + 2))
})

test('no number of vectors overflows', async (t) => {
  const sums = new DecayingSums(0.5, Float64Array.of(0))
  for (let i = 0; i < 10_000; i += 1) {
    sums.next()
    sums.put(0, 1)
    if (i % 777 === 0 && sums.take() !== undefined) sums.settle()
  }
  t.ok(near(sums.read()[0], 2), `${sums.read()[0]}`)
})

test('sharing changes nothing for a process alone, whenever it happens', async (t) => {
  const [plain, shared] = [0, 0].map(() => new DecayingSums(decay, Float64Array.of(5, 7)))
  let known: Float64Array | undefined
  let taken: SumsDelta | undefined
  for (let i = 0; i < 500; i += 1) {
    const [at, amount] = [random.below(2), random.below(100)]
    for (const sums of [plain, shared]) {
      sums?.next()
      sums?.put(at, amount)
    }
    const dice = random.below(6)
    // An answer that fails is taken again, with what came meanwhile.
    if (dice < 2) taken = shared?.take()
    if (dice === 2 && taken !== undefined) {
      known = add(known, taken)
      shared?.settle()
      taken = undefined
      shared?.replace(known)
    }
    for (const place of [0, 1]) {
      if (!near(shared?.read()[place], plain?.read()[place])) t.fail(`seed ${random.seed}`)
    }
  }
  t.ok(known)
})

test('what was settled is not shared again', async (t) => {
  const sums = new DecayingSums(decay, Float64Array.of(0))
  sums.next()
  sums.put(0, 4)
  t.same([...(sums.take()?.sums ?? [])], [4])
  sums.settle()
  t.equal(sums.take(), undefined)
  sums.settle()
  t.ok(near(sums.read()[0], 4))
})

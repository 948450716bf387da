/**
 * Compares four ways to admit requests on identical traffic, at 1.5 and 0.7 times the limit: by how much windows exceed
 * it, which requests are refused although they would have fitted, how much of the limit is used. Nothing is started;
 * src/ratelimit/rules/estimates decides. `node bench/admission.bench.ts` prints the table in bench/README.md; SEEDS=3
 * by default.
 */

import { policies, replay } from './traces/replay.ts'
import { kinds, makeTrace } from './traces/trace.ts'

const overshoot = 0.25
const seeds = Number(process.env.SEEDS ?? 3)

const compared = [
  ['count', policies.count],
  ['worst case', policies.worst],
  ['constant 5000', policies.constant],
  ['ours', () => policies.ours(overshoot)],
] as const

const figures = (values: readonly number[]) => values.map((each) => each.toFixed(1)).join(' · ')

console.log('| traffic | load | policy | over p99 · max % | false % | utilisation % | cut % |')
console.log('|---|---|---|---|---|---|---|')
for (const kind of kinds) {
  for (const load of [1.5, 0.7]) {
    const traces = Array.from({ length: seeds }, (_, seed) => makeTrace(kind, seed, load))
    for (const [name, policy] of compared) {
      const outcomes = traces.map((trace) => replay(trace, policy(), overshoot))
      const mean = (read: (outcome: (typeof outcomes)[number]) => number) =>
        outcomes.reduce((sum, outcome) => sum + read(outcome), 0) / outcomes.length
      const most = Math.max(...outcomes.map(({ overMax }) => overMax))
      const over = figures([mean(({ overP99 }) => overP99), most])
      const rest = [
        mean(({ falsePercent }) => falsePercent),
        mean(({ utilisation }) => utilisation),
        mean(({ cutPercent }) => cutPercent),
      ].map((each) => each.toFixed(1))
      console.log(`| ${kind} | ${load} | ${name} | ${over} | ${rest.join(' | ')} |`)
    }
  }
}

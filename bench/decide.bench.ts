/** What a decision costs: target, authorize, counters, and the message around them. */

import { authorize } from '../src/decide/decide.ts'
import { enforceLimits } from '../src/decide/steps/limits.ts'
import { pathRules } from '../src/operations/operations.ts'
import { parseTarget } from '../src/operations/request-target.ts'
import { counterOf } from '../src/ratelimit/rules/counter-cache.ts'
import { createTestCounters } from '../test/support/counters.ts'
import { createCaller, createSnapshot } from './fixture.ts'
import { type Figure, microsPerCall } from './measure.ts'

const callers = 1_024
const teams = 16

export function benchDecide(): readonly Figure[] {
  return [10, 4_000].flatMap((models) => {
    const snapshot = createSnapshot(models, teams)
    const counters = createTestCounters()
    const people = Array.from({ length: callers }, (_, i) => createCaller(i, teams))
    const paths = Array.from(
      { length: callers },
      (_, i) => `/llm/m${(i * 7) % models}/v1/chat/completions`,
    )
    const metered = pathRules()
    const now = 1_000_000

    const work = (i: number): unknown => {
      const target = parseTarget(paths[i % callers] as string)
      if (target === undefined) throw new Error('no target')
      const caller = people[i % callers] as (typeof people)[number]
      const decision = authorize(
        { caller, target, method: 'POST', bodyModel: undefined, requestedSubscription: undefined },
        snapshot,
        metered,
      )
      if (!decision.allowed) throw new Error(decision.code)
      const asked = decision.limits.map((limit) => counterOf(limit, caller.user))
      const states = counters.read(asked, now)
      if (states instanceof Promise) throw new Error('memory counters answer synchronously')
      const verdict = enforceLimits(decision, states, now)
      if (i % 4 === 0) counters.add(asked, 10, now)
      return verdict
    }
    return [
      {
        name: `decide, ${models} models, 2 rates`,
        value: `${microsPerCall(work).toFixed(2)} µs CPU`,
      },
    ]
  })
}

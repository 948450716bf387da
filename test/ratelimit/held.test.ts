import { test } from 'tap'
import { createEstimators } from '../../src/core/admission/estimators.ts'
import type { Counter } from '../../src/core/decision/counter.ts'
import { nothingReported } from '../../src/core/decision/usage.ts'
import { createHeld } from '../../src/ratelimit/held.ts'
import { createMemoryCounters } from '../../src/store/counters/memory.ts'
import { createMemoryHolds } from '../../src/store/holds/memory.ts'
import { modelRef, snapshotOf, subscription } from '../support/documents.ts'

const [minute, hour] = [60_000, 3_600_000]
const counterOf = (windowMs: number, scope = 'llm/small'): Counter => {
  return { key: `basic\n${scope}\n${windowMs}\nada`, windowMs }
}

/** Where a request is charged, an hour after the epoch, whose windows end so many ms later. */
function charged(ends: readonly (readonly [number, number])[] | undefined, all: Counter[]) {
  const admission = { mode: 'reserve', charge: 'admission' }
  const limits = { 'llm/small': [[1_000, '1h']] } as const
  const snapshot = snapshotOf(modelRef('small'), subscription('basic', {}, limits, { admission }))
  const holds = createMemoryHolds(createMemoryCounters())
  const held = createHeld({ snapshot: () => snapshot, holds, estimators: createEstimators() })
  const windows = ends?.map(([windowMs, inMs]) => ({ windowMs, endsAt: hour + inMs }))
  const usage = {
    ...{ user: 'ada', subscription: 'basic', model: 'llm/small', status: 200, bytes: 1 },
    reported: nothingReported,
    held: {
      ...{ id: 'a', admittedAt: hour - 9_000, bytes: undefined, maxOutput: undefined },
      ...{ cap: undefined, tookMs: 9_000, isBroken: false, windows },
    },
  }
  return held.charged(usage, all, hour)
}

test('a response is charged in the windows that admitted its request', async (t) => {
  const all = [counterOf(minute), counterOf(hour)]
  t.strictSame(
    charged(
      [
        [minute, 1],
        [hour, 1],
      ],
      all,
    ),
    all,
  )
  t.strictSame(
    charged(
      [
        [minute, 0],
        [hour, 1],
      ],
      all,
    ),
    [counterOf(hour)],
  )
  t.strictSame(
    charged(
      [
        [minute, -5_000],
        [hour, 0],
      ],
      all,
    ),
    [],
  )
})

test('a key has a window of its own', async (t) => {
  const all = [counterOf(minute), counterOf(minute, '@key')]
  t.strictSame(
    charged(
      [
        [minute, 1],
        [minute, -1],
      ],
      all,
    ),
    [counterOf(minute)],
  )
  t.strictSame(
    charged(
      [
        [minute, -1],
        [minute, 1],
      ],
      all,
    ),
    [counterOf(minute, '@key')],
  )
})

test('limits that did not admit it are charged, too', async (t) => {
  t.strictSame(charged([[minute, 0]], [counterOf(minute), counterOf(hour)]), [counterOf(hour)])
  t.strictSame(charged(undefined, [counterOf(minute)]), [counterOf(minute)])
})

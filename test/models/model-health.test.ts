import { test } from 'tap'
import { createModelHealth } from '../../src/models/model-health.ts'
import type { RequestOutcome } from '../../src/usage/rules/model-failure.ts'
import { modelRef, snapshotOf } from '../support/documents.ts'

const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('vouched', { backendUrl: 'https://a.example', caFile: 'ca.pem' }),
)

function watched() {
  const lines: Record<string, unknown>[] = []
  let now = 1_000_000
  const health = createModelHealth({
    snapshot: () => snapshot,
    log: { warn: (line: unknown) => void lines.push(line as Record<string, unknown>) },
    clock: () => now,
  })
  const pass = (ms: number) => {
    now += ms
  }
  return { health, lines, pass }
}

const refused: RequestOutcome = {
  model: 'llm/small',
  subscription: 'basic',
  requestId: 'id-1',
  status: 503,
  endedAt: 1_000_000,
  durationMs: 12,
  firstByteMs: undefined,
  failure: { reason: 'refused', detail: 'Connection_refused' },
  hasResponded: false,
}

test('a failure is logged with model, request and reason', async (t) => {
  const { health, lines } = watched()
  health.tell(refused)
  t.strictSame(lines, [
    {
      code: 'model_failing',
      model: 'llm/small',
      request_id: 'id-1',
      reason: 'refused',
      detail: 'Connection_refused',
    },
  ])
  health.tell({ ...refused, model: 'llm/vouched', failure: { reason: 'tls', detail: 'x' } })
  t.equal(lines[1]?.authorities, 'ca.pem')
})

test('many failures of one kind are few lines', async (t) => {
  const { health, lines, pass } = watched()
  for (let i = 0; i < 100; i += 1) health.tell(refused)
  t.equal(lines.length, 1)
  health.tell({ ...refused, failure: { reason: 'timeout', detail: '' } })
  t.equal(lines.length, 2, 'another reason is another line')
  pass(30_000)
  health.tell(refused)
  t.equal(lines[2]?.more, 99)
  pass(30_000)
  health.tell(refused)
  t.notOk(lines[3] && 'more' in lines[3])
})

test('the state is that of the last request that succeeded or failed', async (t) => {
  const { health } = watched()
  const stateOf = () => health.stateOf('llm/small')
  t.equal(stateOf(), undefined)
  health.note({ ...refused, failure: undefined })
  t.equal(stateOf(), undefined, 'neither succeeded nor failed')
  health.note(refused)
  t.match(stateOf(), { failure: { reason: 'refused' } })
  health.note({ ...refused, failure: undefined })
  t.match(stateOf(), { failure: { reason: 'refused' } })
  health.note({ ...refused, failure: undefined, hasResponded: true })
  t.strictSame(stateOf(), { failure: null })
})

test('lines may come in another order than requests ended', async (t) => {
  const { health } = watched()
  const stateOf = () => health.stateOf('llm/small')
  health.note({ ...refused, failure: undefined, hasResponded: true, endedAt: 1_000_001 })
  health.note(refused)
  t.strictSame(stateOf(), { failure: null })
  health.note({ ...refused, endedAt: 1_000_002 })
  t.match(stateOf(), { failure: { reason: 'refused' } })
})

test('after a clock that was ahead the state follows requests again', async (t) => {
  const { health, pass } = watched()
  const stateOf = () => health.stateOf('llm/small')
  pass(3_600_000)
  health.note({ ...refused, endedAt: 4_600_000 })
  pass(-3_600_000)
  health.note({ ...refused, failure: undefined, hasResponded: true, endedAt: 1_000_100 })
  t.strictSame(stateOf(), { failure: null })
  health.note(refused)
  t.strictSame(stateOf(), { failure: null }, 'an earlier line changes nothing, as before')
})

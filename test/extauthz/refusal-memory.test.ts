import { queryObjects } from 'node:v8'
import { test } from 'tap'
import { createRefusalMemory } from '../../src/extauthz/refusal-memory.ts'
import type { RefusedCheck } from '../../src/extauthz/refused-check.ts'
import type { KeyCaller } from '../../src/identity/rules/caller.ts'

const hour = 3_600_000
const start = Date.UTC(2026, 0, 1)
const callerOf = (user: string): KeyCaller => ({
  ...{ by: 'key', user, groups: [], keyId: `key-of-${user}`, subscription: 'basic' },
})

function refusalOf(requestId: string, more: Partial<RefusedCheck> = {}): RefusedCheck {
  return {
    code: 'model_not_allowed',
    denial: { allowed: false, code: 'model_not_allowed', detail: { about: 'model', name: 'x' } },
    now: start,
    method: 'POST',
    path: '/llm/x/v1/chat/completions',
    bodyModel: undefined,
    status: 403,
    reason: 'no such model',
    caller: callerOf('ada'),
    model: 'llm/x',
    subscription: undefined,
    source: () => undefined,
    requestId,
    traceparent: undefined,
    ...more,
  }
}

test('a refusal is found by its request id, by its user or by anybody, for an hour', async (t) => {
  const memory = createRefusalMemory()
  memory.note(refusalOf('one'))
  const found = memory.find('one', 'ada', start + hour)
  t.match(found, { requestId: 'one', at: start, status: 403, path: '/llm/x/v1/chat/completions' })
  t.match(found?.message, /"x" does not exist/)
  t.equal(memory.find('one', undefined, start), found)
  t.equal(memory.find('one', 'bob', start), undefined)
  t.equal(memory.find('two', 'ada', start), undefined)
  t.equal(memory.find('one', 'ada', start + hour + 1), undefined)
  t.strictSame(memory.recent(10, start), [found])
})

test('a budget that resets soon has the code of the response', async (t) => {
  const memory = createRefusalMemory()
  for (const [id, waitMs] of [
    ['soon', 60_000],
    ['late', 60_001],
  ] as const) {
    const code = 'insufficient_quota'
    memory.note(refusalOf(id, { code, denial: { allowed: false, code, retryAt: start + waitMs } }))
  }
  t.equal(memory.find('soon', 'ada', start)?.code, 'token_limit_exceeded')
  t.equal(memory.find('late', 'ada', start)?.code, 'insufficient_quota')
})

test('the last of several with one id is found, and each only by its user', async (t) => {
  const memory = createRefusalMemory()
  memory.note(refusalOf('same', { status: 403 }))
  memory.note(refusalOf('same', { status: 429 }))
  memory.note(refusalOf('same', { status: 401, caller: callerOf('bob') }))
  t.equal(memory.find('same', 'ada', start)?.status, 429)
  t.equal(memory.find('same', 'bob', start)?.status, 401)
  t.equal(memory.find('same', undefined, start)?.status, 401)
})

test("floods of one user and of strangers leave others' refusals", async (t) => {
  const memory = createRefusalMemory()
  memory.note(refusalOf('mine', { caller: callerOf('bob') }))
  for (let i = 0; i < 20_000; i += 1) {
    memory.note(refusalOf(`flood-${i}`))
    memory.note(refusalOf(`stranger-${i}`, { caller: null }))
  }
  t.ok(memory.find('mine', 'bob', start))
  t.equal(memory.find('flood-19899', 'ada', start), undefined)
  t.ok(memory.find('flood-19900', 'ada', start))
  t.equal(memory.recent(20_000, start).length, 201)
})

test('memory is bounded over users, the oldest refusals go first', async (t) => {
  const memory = createRefusalMemory()
  for (let i = 0; i < 10_100; i += 1) {
    memory.note(refusalOf(`of-${i}`, { caller: callerOf(`user-${i}`) }))
  }
  t.equal(memory.recent(20_000, start).length, 10_000)
  t.equal(memory.find('of-99', undefined, start), undefined)
  t.ok(memory.find('of-100', 'user-100', start))
})

test('requests without an id or with much text are not remembered', async (t) => {
  const memory = createRefusalMemory()
  memory.note(refusalOf('', { requestId: undefined }))
  memory.note(refusalOf('x'.repeat(257)))
  memory.note(refusalOf('path', { path: `/${'x'.repeat(1_024)}` }))
  memory.note(refusalOf('model', { bodyModel: 'x'.repeat(257) }))
  memory.note(refusalOf('subscription', { subscription: 'x'.repeat(257) }))
  t.strictSame(memory.recent(10, start), [])
})

test('a refusal does not retain its headers', (t) => {
  const memory = createRefusalMemory()
  const retained = () => {
    // It collects garbage first.
    queryObjects(Map, { format: 'count' })
    return process.memoryUsage().heapUsed
  }
  const before = retained()
  for (let i = 0; i < 1_000; i += 1) {
    const header = `${'x'.repeat(30_000)}, ${i}-a-subscription-with-a-long-name`
    const subscription = Buffer.from(header).toString()
    memory.note(refusalOf(`${i}`, { caller: callerOf(`user-${i}`), subscription }))
  }
  const bytes = retained() - before
  t.match(memory.find('7', 'user-7', start)?.requestedSubscription, /^7-a-subscription/)
  t.ok(bytes < 5_000_000, `${bytes} bytes`)
  t.end()
})

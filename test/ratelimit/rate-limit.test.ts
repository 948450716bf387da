import { status as grpcStatus } from '@grpc/grpc-js'
import { test } from 'tap'
import type { Usage } from '../../src/core/decision/usage.ts'
import { WireError, WireWriter } from '../../src/grpc/wire.ts'
import { createShouldRateLimit, readRateLimit } from '../../src/ratelimit/rate-limit.ts'
import { rateLimitRequest, rateLimitResponse } from '../support/envoy-messages.ts'
import { startGrpc } from '../support/grpc-client.ts'
import { createRandom } from '../support/random.ts'

const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const usage = {
  user: 'ädä',
  subscription: 'basic',
  model: 'llm/small',
  status: 200,
  bytes: 0,
  reported: new Map([['total_tokens', 40]]),
}
const entries = {
  user: 'ädä',
  subscription: 'basic',
  model: 'llm/small',
  metered: 'true',
  status: '200',
}

/** A descriptor with these entries; `hits` undefined omits the field. */
function descriptor(values: Readonly<Record<string, string>> = entries, hits?: number): object {
  return {
    entries: Object.entries(values).map(([key, value]) => ({ key, value })),
    ...(hits === undefined ? {} : { hits_addend: { value: hits } }),
  }
}

function request(descriptors: readonly object[], more: object = {}): Buffer {
  return rateLimitRequest.encode({ domain: 'tollgate', descriptors, ...more })
}

function createWorld() {
  const settled: Usage[] = []
  const ignored: string[] = []
  const shouldRateLimit = createShouldRateLimit({
    settle: (each) => settled.push(each),
    onIgnored: (reason) => ignored.push(reason),
  })
  return { settled, ignored, shouldRateLimit }
}

test('a descriptor gives who used what', async (t) => {
  const { settled, ignored, shouldRateLimit } = createWorld()
  const answer = rateLimitResponse.decode(shouldRateLimit(request([descriptor(entries, 40)])))
  t.strictSame(settled, [usage])
  t.strictSame(ignored, [])
  t.match(answer, { overall_code: 1, statuses: [{ code: 1 }] })
})

test('a descriptor may name the counters of a key', async (t) => {
  const { settled, shouldRateLimit } = createWorld()
  shouldRateLimit(request([descriptor({ ...entries, cap: 'id-1 60000' }, 40)]))
  t.strictSame(settled, [{ ...usage, cap: 'id-1 60000' }])
})

test('the message is read as Envoy’s proto defines it', async (t) => {
  const rich = {
    ...descriptor({ ...entries, other: 'entry' }, 40),
    limit: { requests_per_unit: 3, unit: 2 },
  }
  t.strictSame(readRateLimit(request([rich, descriptor(entries, 7)], { hits_addend: 3 })), {
    domain: 'tollgate',
    usages: [usage, { ...usage, reported: new Map([['total_tokens', 7]]) }],
  })
})

test('the descriptor’s own hits take precedence', async (t) => {
  for (const [own, whole, totalTokens] of [
    [undefined, undefined, undefined],
    [undefined, 0, undefined],
    [undefined, 5, 5],
    [0, undefined, 0],
    [0, 5, 0],
    [40, 5, 40],
    [2 ** 40, 0, 2 ** 40],
  ] as const) {
    const bytes = request(
      [descriptor(entries, own)],
      whole === undefined ? {} : { hits_addend: whole },
    )
    const reported = new Map(totalTokens === undefined ? [] : [['total_tokens', totalTokens]])
    t.strictSame(readRateLimit(bytes).usages, [{ ...usage, reported }], `${own} ${whole}`)
  }
})

test('the status decides as in the access log', async (t) => {
  for (const [text, status] of [
    ['200', 200],
    ['503', 503],
    ['0', 0],
    ['ok', 0],
    ['2e2', 0],
    ['-200', 0],
  ] as const) {
    const bytes = request([descriptor({ ...entries, status: text }, 40)])
    t.strictSame(readRateLimit(bytes).usages, [{ ...usage, status }], text)
  }
})

test('descriptors of others are not counted', async (t) => {
  const { settled, ignored, shouldRateLimit } = createWorld()
  for (const name of ['user', 'subscription', 'model', 'status', 'metered'] as const) {
    const { [name]: _, ...others } = entries
    shouldRateLimit(request([descriptor(others, 40)]))
  }
  shouldRateLimit(request([descriptor({ ...entries, metered: 'false' }, 40)]))
  t.equal(ignored.length, 1, 'reported once')
  for (let i = 0; i < 50; i += 1) {
    const answer = shouldRateLimit(request([descriptor(entries, 40)], { domain: `other-${i}` }))
    t.match(rateLimitResponse.decode(answer), { overall_code: 1 })
  }
  t.equal(ignored.length, 16, 'not forever')
  t.match(ignored[1], /"other-0"/)
  t.strictSame(settled, [])
})

test('a descriptor next to an unknown one is counted', async (t) => {
  const { settled, shouldRateLimit } = createWorld()
  const answer = shouldRateLimit(request([descriptor({ a: 'b' }), descriptor(entries, 40)]))
  t.match(rateLimitResponse.decode(answer).statuses, { length: 2 })
  t.strictSame(settled, [usage])
})

test('nothing of a malformed request is counted', async (t) => {
  const { settled, shouldRateLimit } = createWorld()
  const good = descriptor(entries, 40)
  for (const [title, bytes] of [
    ['no domain', request([good], { domain: '' })],
    ['no descriptor', request([])],
    ['no entry', request([good, { entries: [] }])],
    ['an empty key', request([good, descriptor({ '': 'x' })])],
    ['an empty value', request([good, descriptor({ x: '' })])],
    ['nothing', Buffer.alloc(0)],
    ['cut short', request([good]).subarray(0, -3)],
    ['another type', new WireWriter().unsigned(1, 5).finish()],
  ] as const) {
    t.throws(() => shouldRateLimit(bytes), WireError, title)
  }
  t.strictSame(settled, [])
})

test('random bytes are refused or read', async (t) => {
  const { below, seed } = createRandom()
  const good = request([descriptor(entries, 40)])
  for (let round = 0; round < 3_000; round += 1) {
    const bytes = Buffer.from(good)
    bytes[below(bytes.length)] = below(256)
    try {
      readRateLimit(bytes)
    } catch (error) {
      if (!(error instanceof WireError)) throw error
    }
  }
  t.pass(`seed ${seed}`)
})

test('a gateway can call the service over a channel', async (t) => {
  const { settled, shouldRateLimit } = createWorld()
  const { ask, faults } = await startGrpc(t, { unary: { [path]: shouldRateLimit } })
  const answer = await ask(path, request([descriptor(entries, 40)]))
  t.match(rateLimitResponse.decode(answer), { overall_code: 1 })
  t.strictSame(settled, [usage])
  await t.rejects(ask(path, request([])), { code: grpcStatus.INVALID_ARGUMENT })
  t.strictSame(faults, [])
})

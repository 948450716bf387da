import { setTimeout as delay } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import { test } from 'tap'
import { type CheckDeps, createCheck } from '../../src/extauthz/check.ts'
import { briefOutageMs, createLimitEnforcer } from '../../src/extauthz/check-limits.ts'
import { parseJournalLine } from '../../src/journal/journal-line.ts'
import { pathRules } from '../../src/operations/operations.ts'
import { createMemoryHolds } from '../../src/ratelimit/holds/memory-holds.ts'
import type { HoldStore } from '../../src/ratelimit/holds.ts'
import { counterOf } from '../../src/ratelimit/rules/counter-cache.ts'
import { createEstimators } from '../../src/ratelimit/rules/estimates/estimators.ts'
import { emptyHold, type HoldResult } from '../../src/ratelimit/rules/hold.ts'
import { createHoldFollower } from '../../src/usage/hold-follower.ts'
import { lineUses } from '../../src/usage/rules/line-charges.ts'
import { createLineSettler } from '../../src/usage/settle.ts'
import { createTestCounters } from '../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { checkOf, checkResponse, readDenial } from '../support/envoy-messages.ts'
import { readHead } from '../support/line-head.ts'
import { createRandom } from '../support/random.ts'
import { endOf } from '../support/window-ends.ts'

// An hour of ada's begins, and with it each shorter window that fits into hours.
const start = endOf('1h', 'ada', Date.UTC(2026, 0, 1))
const minute = 60_000
const chat = '/llm/small/v1/chat/completions'

interface Options {
  readonly admission?: object | undefined
  readonly limits?: readonly (readonly [number, string])[]
  readonly holds?: HoldStore
  readonly onLoss?: 'allow' | 'deny'
  /** `requestRateLimits` and `concurrency` of the model. */
  readonly ofModels?: object
  /** `limits` of the Subscription. */
  readonly named?: readonly object[]
  /** `spec.output` of the model. */
  readonly output?: object | undefined
  /** Called when a refusal waits. */
  readonly pause?: (ms: number) => void
  /** Whether what is not reported is charged (CHARGE_UNREPORTED). */
  readonly charges?: boolean
}

/** A limit on money; under one that refuses nothing is free. */
function budgeted(enforce: boolean) {
  const cost = { name: 'money', of: 'cost', limit: '9', window: 'day', enforce }
  return { named: [cost], ofModels: { billingRate: { perToken: '0.000001' } } }
}

/** Check and the lines of responses, with stores in memory and a clock that the test sets. */
function createWorld(options: Options = {}) {
  const { admission = { mode: 'reserve' }, limits = [[10_000, '1m']], onLoss = 'allow' } = options
  const { ofModels = {}, output, named } = options
  const snapshot = snapshotOf(
    modelRef('small', output && { output }),
    accessPolicy('open', ['llm/small'], { users: ['ada', 'bob'] }),
    subscription(
      'pool',
      { users: ['ada', 'bob'] },
      { 'llm/small': limits },
      { admission, ofModels, named },
    ),
  )
  const counters = createTestCounters()
  const clock = { now: start }
  const own = createMemoryHolds(counters.windows, () => clock.now)
  const holds = options.holds ?? own
  const estimators = createEstimators()
  const faults: unknown[] = []
  const ada = { by: 'key', user: 'ada', groups: [], keyId: 'k1', subscription: 'pool' } as const
  const caller = { user: 'ada' }
  const deps: CheckDeps = {
    authenticate: () => ({ ...ada, user: caller.user }),
    snapshot: () => snapshot,
    limits: createLimitEnforcer({
      counters,
      holding: {
        ...{ holds, estimators, onLoss },
        pause: async (ms) => options.pause?.(ms),
        monotonic: () => clock.now,
      },
      charging: { estimators, isAlways: options.charges ?? false },
    }),
    paths: pathRules(),
    clock: () => clock.now,
    onFault: (error) => faults.push(error),
  }
  const check = createCheck(deps)
  const settle = createLineSettler({
    clock: () => clock.now,
    monotonic: () => clock.now,
    holds: createHoldFollower({ snapshot: () => snapshot, holds, estimators }),
    all: { onEnded() {} },
    writer: { onEnded() {}, onAdmitted() {}, onCharged() {} },
  })
  /** Follows a line of the gateway as the service does; returns what it has counted. */
  function follow(allowed: Buffer, fields: object): number {
    const { metadata } = readAllow(allowed)
    if (metadata.line === undefined) return 0
    const startedAt = readHead(metadata.line)?.startedAt ?? 0
    const { metered, line: check } = metadata
    const written = {
      v: 1,
      check,
      metered,
      ms: clock.now - startedAt,
      fb: 0,
      flags: '-',
      ...fields,
    }
    const line = parseJournalLine(JSON.stringify(written), 'allow')
    if (line === undefined) throw new Error('no line')
    const counted = lineUses(line, snapshot)
    for (const { at, amount, counters: all } of counted) counters.add(all, amount, at)
    settle.onLine(line)
    settle.onDelivered(line)
    return counted.length
  }
  const limit = snapshot.subscriptions.get('pool')?.limits.get('llm/small')?.[0]
  if (limit === undefined) throw new Error('no limit')
  const counter = counterOf(limit, 'ada')
  const charge = snapshot.subscriptions.get('pool')?.admission?.charge ?? 'end'
  return {
    ...{ counters, clock, deps, faults, holds: own, caller },
    check: async (bytes: Buffer) => check(bytes),
    ask: async (id: string | undefined, bytes?: number, path = chat) =>
      check(
        checkOf(path, {
          ...(id !== undefined && { 'x-request-id': id }),
          ...(bytes !== undefined && { 'content-length': String(bytes) }),
        }),
      ),
    /** Writes the line of a response. */
    end(allowed: Buffer, reported: object, status = 200, bytes = 0): void {
      follow(allowed, { status, bytes, reported, sent: 5 })
    },
    /** Writes that of a request without a response; `isSent`: whether it had been sent to the model. */
    leave(allowed: Buffer, flags: string, isSent: boolean): void {
      const type = 'DownstreamEnd'
      follow(allowed, { type, status: 0, bytes: 0, reported: '-', sent: isSent ? 5 : null, flags })
    },
    /** Writes that of a request that still runs; returns what it has counted. */
    run: (allowed: Buffer, bytes: number): number =>
      follow(allowed, {
        ...{ type: 'DownstreamPeriodic', status: 200, bytes, sent: 5 },
        reported: { streamed: true },
      }),
    /** What is used and held of a limit by name. */
    state(name: string, charge: 'admission' | 'end' = 'admission') {
      const all = snapshot.subscriptions.get('pool')?.limits.get('llm/small') ?? []
      const found = all.find(({ limitName }) => limitName === name)
      if (found === undefined) throw new Error(`no limit ${name}`)
      const asked = { ...emptyHold, counters: [counterOf(found, 'ada')], charge }
      const [window] = (own.hold(asked, clock.now) as HoldResult).windows
      return [window?.used, window?.held ?? 0]
    },
    used: () => counters.windows([counter], clock.now)[0]?.used,
    held() {
      const asked = { ...emptyHold, counters: [counter], charge }
      const { windows } = own.hold(asked, clock.now) as HoldResult
      return windows[0]?.held ?? 0
    },
  }
}

function isAllowed(bytes: Buffer): boolean {
  return checkResponse.decode(bytes).ok_response !== undefined
}

function readAllow(bytes: Buffer) {
  const { ok_response, dynamic_metadata } = checkResponse.decode(bytes) as {
    ok_response?: {
      headers?: { header: { key: string; value: string } }[]
      response_headers_to_add?: { header: { key: string; value: string } }[]
    }
    dynamic_metadata?: { fields: Record<string, Record<string, unknown>> }
  }
  if (ok_response === undefined) throw new Error('the request was refused')
  const fields = Object.entries(dynamic_metadata?.fields ?? {}).map(([name, value]) => [
    name,
    value.numberValue ?? value.stringValue ?? value.boolValue,
  ])
  return {
    headers: Object.fromEntries(
      (ok_response.response_headers_to_add ?? []).map(({ header }) => [header.key, header.value]),
    ),
    ceiling: ok_response.headers?.find(({ header }) => header.key === 'x-tollgate-ceiling')?.header
      .value,
    metadata: Object.fromEntries(fields) as Record<string, unknown>,
  }
}

const usageOf = (input: number, output: number) => ({
  ...{ total_tokens: input + output, prompt_tokens: input, completion_tokens: output },
})

test('requests in progress take room until they are counted', async (t) => {
  const { ask, end, held, used } = createWorld()
  const first = await ask('a', 400)
  const { headers } = readAllow(first)
  t.equal(Number(headers['x-ratelimit-remaining-tokens']), 10_000 - held())
  t.ok(held() > 400, `${held()} tokens are held`)
  end(first, usageOf(100, 50))
  t.equal(held(), 0)
  t.equal(used(), 150)
})

test('what the model can produce at most bounds estimate and ceiling', async (t) => {
  const { ask, end, held } = createWorld({ output: { maxTokens: 60 } })
  const first = await ask('a', 400)
  const { headers, ceiling } = readAllow(first)
  t.ok(held() > 100 && held() < 200, `${held()} tokens are held`)
  t.equal(ceiling, undefined, 'its server ends answers there by itself')
  t.equal(headers['x-tollgate-max-output-tokens'], undefined)
  end(first, usageOf(100, 50))
  const wide = createWorld({ output: { maxTokens: 1_000_000 } })
  const { ceiling: more } = readAllow(await wide.ask('a', 400))
  t.ok(Number(more) > 1_000, `${more}`)
})

test('a server that ignores maxima is sent none', async (t) => {
  const { ask, held, holds } = createWorld({ output: { honoursMaxTokens: false } })
  const { headers, ceiling } = readAllow(await ask('a', 400))
  t.equal(ceiling, undefined)
  t.equal(headers['x-tollgate-max-output-tokens'], undefined)
  t.ok(held() > 400)
  t.equal(holds.size, 1)
})

/** The size that the gateway's script has read. */
const sizedAs = (id: string, size: string, stage?: string) =>
  checkOf(
    chat,
    { 'x-request-id': id, 'x-tollgate-size': size },
    stage === undefined ? {} : { context_extensions: { stage } },
  )

test('the gateway is asked for the size of a body that it has not read', async (t) => {
  const { check, holds, end, clock } = createWorld()
  const first = checkResponse.decode(await check(sizedAs('a', '', 'unread')))
  t.match(first, {
    ok_response: { headers: [{ header: { key: 'x-tollgate-again', value: 'true' } }] },
    dynamic_metadata: null,
  })
  t.equal(holds.size, 0)
  const second = await check(sizedAs('a', '400;50;1;1;'))
  readAllow(second)
  t.equal(holds.size, 1)
  end(second, usageOf(9_000, 2_000))
  const spent = readDenial(await check(sizedAs('b', '', 'unread')))
  t.match(spent, { http: 429, headers: { 'retry-after': '60' } }, 'before its body is read')
  clock.now += minute
  t.ok(isAllowed(await check(sizedAs('b', '', 'unread'))))
  const counting = createWorld({ admission: { mode: 'count' } })
  readAllow(await counting.check(sizedAs('a', '', 'unread')))
})

test('a refusal before the body is read is by all limits, and shows all', async (t) => {
  for (const [window, code, after] of [
    ['1h', 'request_limit_exceeded', '3600'],
    ['1s', 'rate_limit_exceeded', '60'],
  ] as const) {
    const ofModels = { requestRateLimits: [{ limit: 1, window }] }
    const { check, end, holds } = createWorld({ ofModels })
    const admitted = await check(sizedAs('a', '400;50;1;1;'))
    end(admitted, usageOf(9_000, 2_000))
    const { http, headers, body } = readDenial(await check(sizedAs('b', '', 'unread')))
    t.match({ http, ...body.error }, { http: 429, code })
    t.equal(headers['retry-after'], after)
    t.match(headers['ratelimit-policy'], `"requests-${window}"`)
    t.equal(headers['x-ratelimit-remaining-requests'], '0')
    t.equal(holds.size, 0)
  }
  const away = {
    hold: () => Promise.reject(new Error('Redis is away')),
    ...{ release: () => {}, undo: () => {}, renew: () => {} },
  }
  const ofModels = { requestRateLimits: [{ limit: 1, window: '1h' }] }
  const { check, counters } = createWorld({ ofModels, holds: away })
  const key = 'pool\nllm/small\n60000\nada'
  counters.add([{ key, owner: 'ada', window: { ms: minute }, limit: 10_000 }], 10_000, start)
  t.match(readDenial(await check(sizedAs('b', '', 'unread'))), { http: 429 }, 'without the store')
})

test('several answers that no ceiling bounds are refused if they do not fit', async (t) => {
  const output = { honoursMaxTokens: false, maxTokens: 1_000 }
  const { check, end, holds } = createWorld({ output })
  const never = readDenial(await check(sizedAs('a', '400;5;100;1;')))
  t.equal(never.http, 400)
  t.match(
    never.body.error.message,
    /its 100 answers may use 100000 tokens of output, which nothing bounds/,
  )
  t.equal(holds.size, 0)
  const first = await check(sizedAs('b', '400;5;2;1;'))
  readAllow(first)
  end(first, usageOf(100, 8_900))
  const late = readDenial(await check(sizedAs('c', '400;5;9;1;')))
  t.equal(late.http, 429)
  t.match(late.body.error.message, /at least 9000 tokens of output, more than is left/)
  readAllow(await check(sizedAs('d', '400;5;3;1;')))
})

test('what may be more than was read is refused', async (t) => {
  for (const output of [undefined, { maxTokens: 60 }, { honoursMaxTokens: false }]) {
    const { check, holds } = createWorld({ output })
    const { http, body } = readDenial(await check(sizedAs('a', '9;5;1;1;n must be a number')))
    t.equal(http, 400)
    t.equal(body.error.message, 'The request body is refused: n must be a number.')
    t.equal(holds.size, 0)
  }
  const counting = createWorld({ admission: { mode: 'count' } })
  readAllow(await counting.check(sizedAs('a', '9;5;1;1;n must be a number')))
})

test('a request that needs more than is left is refused for now, or for good', async (t) => {
  const { check, end } = createWorld()
  const ask = async (size: string) => check(sizedAs(size, size))
  const never = readDenial(await ask('400;;1;16001;'))
  t.equal(never.http, 400)
  t.match(never.body.error.message, /16001 tokens of output at least, by thinking.budget_tokens/)
  t.match(readDenial(await ask('400;;20000;1;')).body.error.message, /its 20000 answers are more/)
  const used = await ask('400;;1;1;')
  end(used, usageOf(8_900, 100))
  for (const size of ['400;;1;9001;', '400;;2;4001;', '400;32000;9000;1;']) {
    const { http, headers, body } = readDenial(await ask(size))
    t.match({ http, headers }, { http: 429, headers: { 'retry-after': '60' } }, size)
    t.match(body.error.message, /asks for at least \d+ tokens of output, more than is left/)
  }
  const { ceiling } = readAllow(await ask('400;32000;1;3000;'))
  t.ok(Number(ceiling) >= 3_000, `${ceiling}`)
})

test('a ceiling of several answers is sent though each has one of its own', async (t) => {
  const { check } = createWorld({ output: { maxTokens: 9_500 } })
  const { headers, ...allowed } = readAllow(await check(sizedAs('a', '400;;100;1;')))
  const ceiling = Number(allowed.ceiling)
  t.ok(ceiling > 12_000 && ceiling < 12_500, `${ceiling}`)
  t.equal(headers['x-tollgate-max-output-tokens'], String(Math.floor(ceiling / 100)))
})

test('room that is only held is refused for a short time', async (t) => {
  const { ask, end, clock, used } = createWorld({ limits: [[40_000, '1m']] })
  const open: Buffer[] = []
  for (let i = 0; ; i += 1) {
    const answer = await ask(`r${i}`, 400)
    if (!isAllowed(answer) || i > 50) break
    open.push(answer)
  }
  t.ok(open.length >= 2 && open.length < 20, `${open.length} at once`)
  const { http, headers, body } = readDenial(await ask('more', 400))
  t.equal(http, 429)
  t.equal(headers['x-should-retry'], 'true')
  t.ok(Number(headers['retry-after']) >= 1 && Number(headers['retry-after']) <= 30)
  t.equal(body.error.code, 'rate_limit_exceeded')
  t.match(body.error.message, /held by your requests in progress: 0 of 40000 tokens in 1m/)
  for (const answer of open) end(answer, usageOf(10_000, 10_000))
  t.equal(used(), open.length * 20_000, 'counted in full')
  const spent = readDenial(await ask('later', 400))
  t.equal(spent.headers['retry-after'], '60')
  t.equal(spent.headers['x-should-retry'], undefined)
  clock.now += minute
  t.ok(isAllowed(await ask('next window', 400)))
})

test('nor is it refused for room that is held, whichever window it is charged in', async (t) => {
  const random = createRandom()
  for (const charge of ['admission', 'end']) {
    const limits = [[1 + random.below(20_000), '1m']] as const
    const world = createWorld({ limits, admission: { mode: 'reserve', charge } })
    let refused = 0
    for (let i = 0; i < 200; i += 1) {
      const answer = await world.ask(`${i}`, 900)
      world.clock.now += random.below(20_000)
      if (isAllowed(answer)) {
        world.end(answer, usageOf(random.below(2_000), random.below(4_000)))
        continue
      }
      refused += 1
      const { headers } = readDenial(answer)
      if (headers['x-should-retry'] === 'true') t.fail(`${charge}, seed ${random.seed}`)
    }
    t.ok(refused > 0, `${refused} refused`)
  }
})

test('a refusal waits for one or two requests whose report is under way', async (t) => {
  for (const [open, concurrency] of [1, 2, 3].entries()) {
    let waited = 0
    const world = createWorld({
      ...{ limits: [[1_000_000, '1m']], ofModels: { concurrency } },
      pause(ms) {
        waited += ms
        if (waited >= 30) world.end(first, usageOf(100, 50))
      },
    })
    const first = await world.ask('r0', 400)
    for (let i = 1; i <= open; i += 1) await world.ask(`r${i}`, 400)
    const isFew = concurrency <= 2
    t.equal(isAllowed(await world.ask('next', 400)), isFew, `${concurrency} in progress`)
    t.equal(waited, isFew ? 30 : 0)
  }
  let waited = 0
  const pause = (ms: number) => {
    waited += ms
  }
  const world = createWorld({ limits: [[1_500, '1m']], pause })
  await world.ask('a', 400)
  t.notOk(isAllowed(await world.ask('b', 400)))
  t.equal(waited, 100, 'then it is refused')
})

test('a response counts in the window of its admission', async (t) => {
  const { ask, end, clock, used } = createWorld()
  const late = await ask('late', 400)
  clock.now += minute + 2_000
  const next = await ask('next', 400)
  end(late, usageOf(10, 4_000))
  t.equal(used(), 0, 'its window is over')
  end(next, usageOf(10, 20))
  t.equal(used(), 30)
})

test('charged at the end, it counts in the window of its end', async (t) => {
  const { ask, end, clock, used } = createWorld({ admission: { mode: 'reserve', charge: 'end' } })
  const late = await ask('late', 400)
  clock.now += minute + 2_000
  end(late, usageOf(10, 4_000))
  t.equal(used(), 4_010)
})

test('a budget that users share holds prices of estimates, and counts those of responses', async (t) => {
  const billingRate = { perInputToken: '0.000001', perOutputToken: '0.00001', perRequest: '0.001' }
  const team = { name: 'team', per: 'subscription', of: 'cost', limit: '0.3', window: 'day' }
  const { ask, caller, end, held, state } = createWorld({
    ...{ limits: [[1_000_000, '1h']], ofModels: { billingRate }, named: [team] },
  })
  const first = await ask('a', 400)
  readAllow(first)
  const [used, cost] = state('team')
  const output = ((cost as number) - 1_000_000 - 1_000 * held()) / 9_000
  t.same([used, Number.isInteger(output)], [0, true])
  t.ok(output > 100 && output < held(), `${output} of ${held()} tokens`)
  caller.user = 'bob'
  const admitted = [first]
  for (let i = 0; i < 9; i += 1) {
    const next = await ask(`b${i}`, 400)
    if (isAllowed(next)) admitted.push(next)
    else {
      const { http, headers, body } = readDenial(next)
      t.match(headers, { 'x-should-retry': 'true', 'retry-after': /^[1-5]$/ })
      t.equal(http, 429)
      t.match(
        body.error.message,
        /The rest of the budget "team" of your subscription is held by requests/,
      )
    }
  }
  t.ok(admitted.length > 1 && admitted.length < 5, `${admitted.length} at once`)
  for (const each of admitted) end(each, usageOf(100, 50))
  t.same(state('team'), [admitted.length * 1_600_000, 0])
  const last = await ask('c', 400)
  end(last, usageOf(100, 30_000))
  const { http, body } = readDenial(await ask('d', 400))
  t.match([http, body.error.code], [429, 'insufficient_quota'])
})

test('what is short in one limit is not refused as held in another', async (t) => {
  const named = [{ name: 'all', per: 'subscription', limit: 1_000_000, window: '1h' }]
  const { check, ask, caller, end } = createWorld({ named })
  const first = await check(sizedAs('a', '400;50;1;1;'))
  end(first, usageOf(9_850, 50))
  caller.user = 'bob'
  readAllow(await ask('b', 400))
  caller.user = 'ada'
  const { http, headers, body } = readDenial(await check(sizedAs('c', '400;9500;1;9000;')))
  t.equal(http, 429)
  t.not(headers['x-should-retry'], 'true')
  t.match(
    body.error.message,
    /at least 9000 tokens of output, more than is left of the token limit of/,
  )
})

test('weights and kinds of tokens are held as they are counted', async (t) => {
  const named = ['input', 'output', 'tokens'].map((of) => ({
    name: of,
    of,
    limit: 90_000,
    window: '1h',
  }))
  const { ask, end, held, state } = createWorld({
    ...{ limits: [[90_000, '1h']], ofModels: { weights: { output: 4 } }, named },
  })
  const first = await ask('a', 400)
  const [[, input = 0], [, output = 0], [, weighted]] = ['input', 'output', 'tokens'].map((each) =>
    state(each),
  ) as [number[], number[], number[]]
  t.ok(input > 50 && output > 100)
  t.same([weighted, held()], [input + 4 * output, input + 4 * output])
  end(first, usageOf(100, 50))
  for (const [name, used] of [
    ['input', 100],
    ['output', 50],
    ['tokens', 300],
  ] as const) {
    t.same(state(name), [used, 0], name)
  }
})

test('failed and repeated reports release once', async (t) => {
  const { ask, end, held, used } = createWorld({ limits: [[90_000, '1m']] })
  const [a, b] = [await ask('a', 400), await ask('b', 400)]
  const both = held()
  end(a, {}, 502)
  t.equal(held(), both / 2)
  end(a, {}, 502)
  t.equal(held(), both / 2)
  end(b, {})
  t.equal(held(), 0)
  t.equal(used(), 111, 'the input, by an estimate')
})

test('a request that runs is followed, and never counted before its end', async (t) => {
  const { ask, run, end, held, used, clock } = createWorld({ limits: [[90_000, '1h']] })
  const answer = await ask('a', 400)
  const before = held()
  t.equal(run(answer, 100), 0)
  t.ok(held() >= before, 'it never shrinks')
  run(answer, 1_800 * 180)
  t.ok(held() > 1_800 && held() > before, `${held()} tokens are held`)
  t.equal(used(), 0)
  for (let i = 0; i < 30; i += 1) {
    clock.now += minute / 2
    run(answer, 1_800 * 180)
  }
  await ask('b', 400)
  t.ok(held() > 1_800 + before, 'it lives as long as it runs')
  clock.now += minute + 1_000
  await ask('c', 400)
  t.equal(held(), before, 'and a minute longer, as does one that nobody follows')
  run(answer, 1_800 * 180)
  end(answer, usageOf(10, 20))
  t.equal(used(), 30)
  t.equal(held(), before)
})

test('requests that are only counted can be charged the same, and hold nothing', async (t) => {
  for (const charges of [true, false]) {
    const { ask, end, held, used, holds } = createWorld({
      ...{ admission: { mode: 'count' }, charges },
    })
    const answer = await ask('a', 400)
    end(answer, {})
    t.same([used() ?? 0, held(), holds.size], [charges ? 111 : 0, 0, 0])
  }
})

test('a client that leaves before the first byte is charged the admitted input', async (t) => {
  for (const [options, charged] of [
    [{}, 111],
    [{ admission: { mode: 'count' }, charges: true }, 111],
    [{ admission: { mode: 'count' } }, 0],
    [{ admission: { mode: 'count' }, ...budgeted(true) }, 111],
    [{ admission: { mode: 'count' }, ...budgeted(false) }, 0],
  ] as const) {
    for (const flag of ['DC', 'DR']) {
      const { ask, leave, used, held } = createWorld(options)
      leave(await ask('a', 400), flag, false)
      t.same([used() ?? 0, held()], [0, 0], 'not before it was sent to the model')
      leave(await ask('b', 400), flag, true)
      t.same([used() ?? 0, held()], [charged, 0], flag)
    }
    const { ask, leave, used } = createWorld(options)
    leave(await ask('a', 400), 'UR', true)
    t.equal(used() ?? 0, 0, 'a failure of the server costs nothing')
  }
})

test('estimates follow what the responses report', async (t) => {
  const { ask, end, held } = createWorld({ limits: [[1_000_000, '1m']] })
  await ask('first', 4_000)
  const before = held()
  for (let i = 0; i < 200; i += 1) {
    const answer = await ask(`r${i}`, 4_000)
    end(answer, usageOf(500, 40))
  }
  await ask('last', 4_000)
  t.ok(held() - before < 800, `${held() - before} tokens are held of 540`)
})

test('what one user sends sets the estimates of nobody else', async (t) => {
  const world = () => createWorld({ limits: [[100_000, '1m']] })
  /** How many of twenty requests are admitted at once, and what one is charged that breaks off. */
  const measure = async ({ ask }: ReturnType<typeof createWorld>) => {
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(`b${i}`, 400)))
    const [first] = answers as [Buffer]
    return [answers.filter(isAllowed).length, readHead(readAllow(first).metadata.line)?.estimate]
  }
  const alone = world()
  alone.caller.user = 'bob'
  const wanted = await measure(alone)
  t.ok((wanted[0] as number) >= 5, `${wanted[0]} at once`)
  const shared = world()
  for (let i = 0; i < 40; i += 1) {
    shared.clock.now += minute
    const answer = await shared.ask(`a${i}`, 400)
    // Long answers, in events that are larger, or smaller, than usual.
    const reported = { ...usageOf(100, i % 2 === 0 ? 30_000 : 50), streamed: true }
    shared.end(answer, reported, 200, 400_000)
  }
  shared.clock.now += minute
  shared.caller.user = 'bob'
  t.same(await measure(shared), wanted)
})

test('a ceiling goes to the gateway and to the client', async (t) => {
  const { ask } = createWorld({ limits: [[100_000, '1m']] })
  const { headers, ceiling } = readAllow(await ask('a', 400))
  t.ok(Number(ceiling) >= 8_000 && Number(ceiling) < 32_000, `${ceiling}`)
  t.equal(headers['x-tollgate-max-output-tokens'], String(ceiling))
})

test('calls that are not counted hold nothing', async (t) => {
  const { ask, holds } = createWorld()
  readAllow(await ask('e', 400, '/llm/small/v1/embeddings'))
  readAllow(await ask('m', undefined, '/llm/small/v1/models'))
  t.equal(holds.size, 0)
})

test('a request without an id is decided and holds nothing', async (t) => {
  const { ask, holds } = createWorld()
  readAllow(await ask(undefined, 400))
  t.equal(holds.size, 0)
})

test('if holds are out of reach, the setting decides', async (t) => {
  const holds: HoldStore = {
    hold: () => Promise.reject(new Error('Redis is away')),
    release: () => {},
    undo: () => {},
    renew: () => {},
  }
  const allowing = createWorld({ holds })
  // Pauses and failovers are shorter than that.
  for (const waitMs of [0, briefOutageMs - 1]) {
    allowing.clock.now = start + waitMs
    t.equal(readDenial(await allowing.ask('a', 400)).http, 503)
  }
  allowing.clock.now = start + briefOutageMs
  readAllow(await allowing.ask('a', 400))
  const denying = createWorld({ holds, onLoss: 'deny' })
  t.equal(readDenial(await denying.ask('a', 400)).http, 503)
  t.strictSame(denying.faults, [])
})

test('a store of holds that has answered may be away for as long again', async (t) => {
  let isAway = true
  const world = createWorld({ limits: [[1_000_000, '1m']] })
  const { holds: taking, deps } = world
  const holds: HoldStore = {
    ...taking,
    hold: async (asked, now) => {
      if (isAway) throw new Error('Redis is away')
      return taking.hold(asked, now)
    },
    holdAlone: taking.hold,
  }
  const monotonic = () => world.clock.now
  const holding = { holds, estimators: createEstimators(), onLoss: 'allow', monotonic } as const
  const limits = createLimitEnforcer({ counters: world.counters, holding })
  const check = createCheck({ ...deps, limits })
  const ask = async (id: string, at: number) => {
    world.clock.now = start + at
    return isAllowed(await check(checkOf(chat, { 'x-request-id': id })))
  }
  t.notOk(await ask('a', 0))
  t.ok(await ask('b', briefOutageMs))
  isAway = false
  t.ok(await ask('c', briefOutageMs + 1))
  isAway = true
  t.notOk(await ask('d', briefOutageMs + 2))
})

/** A store of holds in several partitions, of which those in `away` fail; `ask` returns whether the Check is allowed. */
function createPartitions() {
  const away = new Set<string>()
  const world = createWorld({ limits: [[1_000_000, '1m']] })
  const { holds: taking, deps } = world
  let partitions: readonly string[] = []
  const failed = new WeakMap<Error, string>()
  const holds: HoldStore = {
    ...taking,
    async hold(asked, now) {
      const partition = partitions.find((each) => away.has(each))
      if (partition === undefined) return taking.hold(asked, now)
      const error = new Error('a node is away')
      failed.set(error, partition)
      throw error
    },
    holdAlone: taking.hold,
    partitionsOf: () => partitions,
    failedPartition: (error) => failed.get(error as Error),
  }
  const monotonic = () => world.clock.now
  const holding = {
    ...{ holds, estimators: createEstimators(), onLoss: 'allow' as const },
    ...{ monotonic, pause: async () => {} },
  }
  const check = createCheck({
    ...deps,
    limits: createLimitEnforcer({ counters: world.counters, holding }),
  })
  async function ask(of: readonly string[], at: number): Promise<boolean> {
    partitions = of
    world.clock.now = start + at
    return isAllowed(await check(checkOf(chat, { 'x-request-id': `${of}${at}` })))
  }
  return { away, ask }
}

test('an outage of one partition does not end because others respond', async (t) => {
  const { away, ask } = createPartitions()
  away.add('one')
  t.notOk(await ask(['one'], 0))
  t.ok(await ask(['two'], briefOutageMs - 1))
  t.ok(await ask(['one'], briefOutageMs))
  t.ok(await ask(['two'], briefOutageMs + 1))
  t.ok(await ask(['one'], briefOutageMs + 2), 'the same outage')
  away.add('two')
  t.notOk(await ask(['two'], briefOutageMs + 3), 'another one')
  away.clear()
  t.ok(await ask(['one'], briefOutageMs + 4))
  away.add('one')
  t.notOk(await ask(['one'], briefOutageMs + 5), 'has responded in between')
  t.ok(await ask(['two'], 2 * briefOutageMs + 3), 'still away')
})

test('an outage of one partition is none of another that a request needs, too', async (t) => {
  const { away, ask } = createPartitions()
  away.add('one')
  t.notOk(await ask(['one', 'two'], 0))
  t.ok(await ask(['one', 'two'], briefOutageMs))
  away.clear()
  t.ok(await ask(['one', 'three'], briefOutageMs + 1))
  away.add('two')
  t.notOk(await ask(['one', 'two'], briefOutageMs + 2))
  t.notOk(await ask(['two'], briefOutageMs + 3))
})

test('an outage is as long as it is, whatever the clock, and ends unnoticed', async (t) => {
  const holds: HoldStore = {
    hold: () => Promise.reject(new Error('Redis is away')),
    release: () => {},
    undo: () => {},
    renew: () => {},
  }
  const world = createWorld()
  let ahead = 0
  const pauses: number[] = []
  const limits = createLimitEnforcer({
    counters: world.counters,
    holding: {
      ...{ holds, estimators: createEstimators(), onLoss: 'allow' },
      pause: async (ms) => pauses.push(ms),
      monotonic: () => ahead,
    },
  })
  const check = createCheck({ ...world.deps, limits })
  const call = { whenReset() {} }
  const ask = async (at: number) => {
    ahead = at
    return isAllowed(await check(checkOf(chat, { 'x-request-id': `${at}` }), undefined, call))
  }
  t.notOk(await ask(0))
  t.equal(pauses.length, 3)
  world.clock.now += 2 * briefOutageMs
  t.notOk(await ask(briefOutageMs - 1), 'the clock is set forward')
  world.clock.now -= 4 * briefOutageMs
  t.ok(await ask(briefOutageMs), 'and back')
  t.ok(await ask(minute), 'the same outage')
  t.equal(pauses.length, 3)
  t.notOk(await ask(60 * minute), 'a blip an hour later is another one')
  t.equal(pauses.length, 6)
})

test('a request does not wait longer because each attempt takes time', async (t) => {
  let clock = 0
  const holds: HoldStore = {
    async hold() {
      clock += 500
      throw new Error('Command timed out')
    },
    release: () => {},
    undo: () => {},
    renew: () => {},
  }
  const world = createWorld()
  const limits = createLimitEnforcer({
    counters: world.counters,
    holding: {
      ...{ holds, estimators: createEstimators(), onLoss: 'allow' },
      pause: async (ms) => (clock += ms),
      monotonic: () => clock,
    },
  })
  const check = createCheck({ ...world.deps, limits })
  readDenial(await check(checkOf(chat, { 'x-request-id': 'a' }), undefined, { whenReset() {} }))
  t.ok(clock <= 1_500, `it took ${clock} ms`)
})

test('a bug of the store of holds is no outage', async (t) => {
  const holds: HoldStore = {
    hold: () => Promise.reject(new TypeError('answer is not iterable')),
    holdAlone: createMemoryHolds(createTestCounters().windows).hold,
    release: () => {},
    undo: () => {},
    renew: () => {},
  }
  for (const mode of ['count', 'reserve']) {
    const world = createWorld({ admission: { mode }, holds, ofModels: { concurrency: 1 } })
    t.equal(readDenial(await world.ask('a', 400)).http, 500, mode)
    t.match(world.faults, [TypeError])
  }
})

test('a connection that is back soon refuses nobody', async (t) => {
  const world = createWorld({ limits: [[1_000_000, '1m']] })
  const askers: (string | undefined)[] = []
  let failures = 2
  const holds: HoldStore = {
    ...world.holds,
    async hold(asked, now) {
      askers.push(asked.asker)
      failures -= 1
      if (failures >= 0) throw new Error('the connection is lost')
      return world.holds.hold(asked, now)
    },
  }
  const pauses: number[] = []
  const limits = createLimitEnforcer({
    counters: world.counters,
    holding: {
      ...{ holds, estimators: createEstimators(), onLoss: 'deny' },
      pause: async (ms) => pauses.push(ms),
      monotonic: () => world.clock.now,
    },
  })
  const calls: unknown[] = []
  const onDecided: CheckDeps['onDecided'] = (...[, , call]) => calls.push(call)
  const check = createCheck({ ...world.deps, limits, onDecided })
  const undo: (() => void)[] = []
  const call = { whenReset: (each: () => void) => void undo.push(each) }
  const ask = (id: string) => check(checkOf(chat, { 'x-request-id': id }), undefined, call)
  readAllow(await ask('a'))
  t.equal(pauses.length, 2)
  t.strictSame(calls, [call], 'who counts the decision learns whether it was read')
  t.equal(new Set(askers).size, 3, 'a late first answer is undone alone')
  undo[0]?.()
  t.equal(world.holds.size, 0, 'the last one has the hold')
  failures = 4
  t.equal(readDenial(await ask('b')).http, 503)
  world.clock.now += 1_000
  failures = 9
  t.equal(readDenial(await ask('c')).http, 503)
  t.equal(failures, 8, 'later ones do not wait')
})

test('what undoes a grant does not retain its call', async (t) => {
  const world = createWorld()
  const check = createCheck(world.deps)
  const undo: (() => void)[] = []
  const ask = async (): Promise<WeakRef<object>> => {
    const call = { whenReset: (each: () => void) => void undo.push(each) }
    readAllow(await check(checkOf(chat, { 'x-request-id': 'a' }), undefined, call))
    return new WeakRef(call)
  }
  const call = await ask()
  await delay(0)
  // It collects garbage first.
  queryObjects(Map, { format: 'count' })
  t.equal(call.deref(), undefined)
  undo[0]?.()
  t.equal(world.holds.size, 0)
})

test('a client of one request at a time is refused as without holds', async (t) => {
  const random = createRandom()
  for (let round = 0; round < 20; round += 1) {
    const limits = [
      [1 + random.below(20_000), '1m'],
      [1 + random.below(60_000), '10m'],
    ] as const
    const [holding, counting] = [
      createWorld({ limits, admission: { mode: 'reserve', charge: 'end', overshootPercent: 0 } }),
      createWorld({ limits, admission: { mode: 'count' } }),
    ]
    for (let i = 0; i < 60; i += 1) {
      const id = `${round} ${i}`
      const [a, b] = await Promise.all([holding.ask(id, 900), counting.ask(id, 900)])
      const allowed = [a, b].map(isAllowed)
      if (allowed[0] !== allowed[1]) t.fail(`${id}: ${allowed}, seed ${random.seed}`)
      const used = usageOf(random.below(2_000), random.below(4_000))
      const tookMs = random.below(20_000)
      for (const [world, answer] of [
        [holding, a],
        [counting, b],
      ] as const) {
        world.clock.now += tookMs
        if (allowed[0]) world.end(answer, used)
      }
    }
  }
  t.pass()
})

test('without the field every answer is the same, byte for byte', async (t) => {
  const admissions = [undefined, { mode: 'count' }, { mode: 'count', charge: 'end' }]
  const answers = await Promise.all(
    admissions.map(async (admission) => {
      const world = createWorld({ admission: admission ?? {} })
      const bare = { ...world.deps, limits: createLimitEnforcer({ counters: world.counters }) }
      const message = checkOf(chat, { 'x-request-id': 'a', 'content-length': '99' })
      return [createCheck(world.deps), createCheck(bare)].map((check) => check(message) as Buffer)
    }),
  )
  const [first, ...others] = answers.flat()
  for (const each of others) t.strictSame(each, first)
  t.equal(readHead(readAllow(first as Buffer).metadata.line)?.held, undefined)
})

const counting = { admission: { mode: 'count' } }
const rate = { requestRateLimits: [{ limit: 3, window: '2m' }] }

for (const admission of [{ mode: 'count' }, { mode: 'reserve' }]) {
  const { mode } = admission
  const limits = [[1_000_000, '1m']] as const

  test(`${mode}: requests are counted when they are admitted`, async (t) => {
    const { ask, end, clock } = createWorld({ admission, limits, ofModels: rate })
    const first = await ask('a', 400)
    const { headers } = readAllow(first)
    t.match(headers, {
      'x-ratelimit-limit-requests': '3',
      'x-ratelimit-remaining-requests': '2',
      'x-ratelimit-reset-requests': '2m0s',
      'x-ratelimit-limit-tokens': '1000000',
      'ratelimit-policy': '"1m";q=1000000;w=60;qu="tokens", "requests-2m";q=3;w=120;qu="requests"',
      ratelimit: /^"1m";r=\d+;t=60, "requests-2m";r=2;t=120$/,
    })
    t.ok(isAllowed(await ask('a', 400)), 'the gateway asks again')
    end(first, usageOf(10, 10))
    clock.now += minute
    for (const id of ['b', 'c']) t.ok(isAllowed(await ask(id, 400)), id)
    const { http, headers: refused, body } = readDenial(await ask('d', 400))
    t.equal(http, 429)
    t.match(refused, { 'retry-after': '60', 'x-ratelimit-remaining-requests': '0' })
    t.equal(refused['x-should-retry'], undefined)
    t.match(body.error, {
      code: 'request_limit_exceeded',
      type: 'requests',
      message:
        /^The request limit of your subscription for this model is used up: 3 of 3 requests in 2m \(subscription "\w+", resets at [\dTZ:-]+\)\. Please try again in 1m0s\.$/,
    })
    clock.now += minute
    t.ok(isAllowed(await ask('e', 400)), 'the window is over')
  })

  test(`${mode}: no more than the concurrency are in progress`, async (t) => {
    const { ask, end } = createWorld({ admission, limits, ofModels: { concurrency: 2 } })
    const open = [await ask('a', 400), await ask('b', 400)] as const
    t.match(readAllow(open[1]).headers, {
      ratelimit: /, "concurrency";r=0$/,
      'ratelimit-policy': /, "concurrency";q=2;qu="concurrent-requests"$/,
      'x-ratelimit-remaining-requests': undefined,
    })
    const { http, headers, body } = readDenial(await ask('c', 400))
    t.equal(http, 429)
    t.equal(headers['x-should-retry'], 'true')
    t.ok(Number(headers['retry-after']) >= 1 && Number(headers['retry-after']) <= 30)
    t.match(body.error, { code: 'concurrency_limit_exceeded', type: 'requests' })
    t.match(body.error.message, /^2 of your requests to this model are in progress, /)
    end(open[0], usageOf(10, 10))
    const next = await ask('c', 400)
    t.ok(isAllowed(next), 'one has ended')
    end(open[0], usageOf(10, 10))
    t.notOk(isAllowed(await ask('d', 400)), 'it ends once')
    end(open[1], {}, 502)
    t.ok(isAllowed(await ask('d', 400)), 'failed ones end, too')
  })

  test(`${mode}: what a limit on concurrency only counts is in progress, and refuses nobody`, async (t) => {
    const seen = { name: 'seen', per: 'subscription', of: 'concurrency', limit: 1, enforce: false }
    const { ask, end, deps, holds } = createWorld({ admission, limits, named: [seen] })
    const [limit] =
      deps.snapshot().subscriptions.get('pool')?.terms.get('llm/small')?.observed ?? []
    if (limit === undefined) throw new Error('no limit')
    const used = () => {
      const { windows } = holds.hold(
        { ...emptyHold, requestCounters: [counterOf(limit, '')] },
        start,
      ) as HoldResult
      return windows.map((each) => each.used)
    }
    const open = [await ask('a', 400), await ask('b', 400), await ask('c', 400)] as const
    t.strictSame(used(), [3])
    t.notMatch(readAllow(open[2]).headers.ratelimit, /seen/)
    end(open[0], usageOf(10, 10))
    t.strictSame(used(), [2])
  })

  test(`${mode}: calls that are not counted take, too, and give back`, async (t) => {
    const { ask, end, held, holds } = createWorld({
      ...{ admission, limits },
      ofModels: { concurrency: 1, requestRateLimits: [{ limit: 2, window: '1m' }] },
    })
    const at = '/llm/small/v1/embeddings'
    const embed = await ask('a', 400, at)
    t.equal(readAllow(embed).metadata.metered, false)
    t.same([holds.size, held()], [1, 0], 'they hold no tokens')
    t.match(readDenial(await ask('b', 400)).body.error, { code: 'concurrency_limit_exceeded' })
    end(embed, {})
    t.equal(holds.size, 0)
    t.ok(isAllowed(await ask('b', 400, at)))
    t.match(readDenial(await ask('c', 400)).body.error, { code: 'request_limit_exceeded' })
    t.ok(isAllowed(await ask('m', undefined, '/llm/small/v1/models')), 'lists are free')
  })

  test(`${mode}: what one limit refuses costs nothing of the others`, async (t) => {
    const { ask, end, clock } = createWorld({
      ...{ admission, limits: [[5_000, '1m']] },
      ofModels: { concurrency: 1, ...rate },
    })
    const left = async (id: string) => {
      const answer = await ask(id, 400)
      end(answer, {})
      return readAllow(answer).headers['x-ratelimit-remaining-requests']
    }
    const open = await ask('a', 400)
    t.notOk(isAllowed(await ask('b', 400)), 'one is in progress')
    end(open, usageOf(1, 1))
    const spending = await ask('c', 400)
    end(spending, usageOf(5_000, 1))
    const refused = readDenial(await ask('d', 400))
    t.match(refused.body.error, { code: 'rate_limit_exceeded', type: 'tokens' })
    t.match(refused.headers, { 'x-ratelimit-remaining-requests': '1', 'retry-after': '60' })
    clock.now += minute
    t.equal(await left('e'), '0', 'of three, two were used')
  })
}

test('a spent window and a spent limit of requests: the later end counts', async (t) => {
  const world = createWorld({ ...counting, limits: [[10, '1m']], ofModels: rate })
  for (const id of ['a', 'b', 'c']) {
    world.end(await world.ask(id, 400), id === 'c' ? usageOf(10, 1) : usageOf(0, 1))
  }
  const { headers, body } = readDenial(await world.ask('d', 400))
  t.equal(headers['retry-after'], '120')
  t.match(body.error, { code: 'request_limit_exceeded', type: 'usage_limit_reached' })
})

test('what is taken for a client that has gone is given back', async (t) => {
  const answers: (() => void)[] = []
  const {
    deps,
    counters,
    holds: taking,
  } = createWorld({
    ...counting,
    ofModels: { concurrency: 1 },
  })
  const late: HoldStore = {
    ...{ release: taking.release, undo: taking.undo, renew: taking.renew },
    hold: (asked, now) =>
      new Promise((resolve) => answers.push(() => resolve(taking.hold(asked, now)))),
  }
  const holding = { holds: late, estimators: createEstimators(), onLoss: 'deny' } as const
  const check = createCheck({ ...deps, limits: createLimitEnforcer({ counters, holding }) })
  const undo: (() => void)[] = []
  const call = { whenReset: (each: () => void) => void undo.push(each) }
  const asked = check(checkOf(chat, { 'x-request-id': 'a' }), undefined, call)
  const again = check(checkOf(chat, { 'x-request-id': 'a' }), undefined, call)
  for (const answer of answers) answer()
  await Promise.all([asked, again])
  t.equal(taking.size, 1)
  t.equal(undo.length, 2)
  undo[0]?.()
  t.equal(taking.size, 1, 'the gateway has read the other answer')
  undo[1]?.()
  t.equal(taking.size, 0, 'it has read neither')
})

test('what cannot be answered is decided once, and given back', async (t) => {
  const decisions: string[] = []
  const world = createWorld({ ...counting, ofModels: { concurrency: 1 } })
  const check = createCheck({
    ...world.deps,
    authenticate: () => ({
      ...{ by: 'key', user: 'ada', groups: [], keyId: 'k1', subscription: 'pool' },
      remembered: { hash: 'h', until: Number.POSITIVE_INFINITY },
    }),
    onDecided: (decision) => decisions.push(decision.allowed ? 'allowed' : decision.code),
    table: {
      mark: 0,
      admit() {
        throw new TypeError('a bug')
      },
    },
  })
  const undo: (() => void)[] = []
  const call = {
    whenReset: (each: () => void) => void undo.push(each),
    takeBack: () => undo.pop()?.(),
  }
  const headers = { authorization: 'Bearer sk-tg-1', 'x-request-id': 'a' }
  t.equal(readDenial((await check(checkOf(chat, headers), undefined, call)) as Buffer).http, 500)
  t.strictSame(decisions, ['internal'])
  t.equal(world.faults.length, 1)
  t.equal(world.holds.size, 0)
})

test('a request without an id is counted', async (t) => {
  const { ask } = createWorld({ ...counting, ofModels: rate })
  for (let i = 0; i < 3; i += 1) t.ok(isAllowed(await ask(undefined)))
  t.notOk(isAllowed(await ask(undefined)))
})

test('while holds are out of reach, each process keeps the limits itself', async (t) => {
  const alone = createMemoryHolds(createTestCounters().windows)
  const released: string[] = []
  const holds: HoldStore = {
    hold: () => Promise.reject(new Error('Redis is away')),
    ...{ holdAlone: alone.hold, renew: alone.renew, undo: alone.undo },
    release(counters, id) {
      released.push(id)
      alone.release(counters, id)
    },
  }
  for (const admission of [{ mode: 'count' }, { mode: 'reserve' }]) {
    const world = createWorld({ admission, holds, ofModels: { concurrency: 1 } })
    const isReserving = admission.mode === 'reserve'
    t.equal(isAllowed(await world.ask('first', 400)), !isReserving)
    if (!isReserving) alone.release([], 'first')
    world.clock.now += briefOutageMs
    const open = await world.ask('a', 400)
    readAllow(open)
    t.match(readDenial(await world.ask('b', 400)).body.error, {
      code: 'concurrency_limit_exceeded',
    })
    world.end(open, usageOf(1, 1))
    t.strictSame(released.splice(0), ['a'])
    const denying = createWorld({ admission, holds, onLoss: 'deny', ofModels: { concurrency: 1 } })
    t.equal(readDenial(await denying.ask('c', 400)).http, 503)
  }
})

import { test } from 'tap'
import { userInLines } from '../../../src/ratelimit/rules/counter-key.ts'
import {
  type CountableLine,
  chargeOfLine,
  lineUses,
} from '../../../src/usage/rules/line-charges.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const owner = { users: ['ada'] }
const limits = { 'llm/small': [[100, '1m']] as const }
const requestRateLimits = [{ limit: 5, window: '1h' }]
const snapshot = snapshotOf(
  modelRef('small'),
  subscription('plain', owner, limits),
  subscription('admitting', owner, limits, { admission: { mode: 'reserve' } }),
  subscription('ending', owner, limits, { admission: { mode: 'reserve', charge: 'end' } }),
  subscription('rated', owner, limits, { ofModels: { requestRateLimits, concurrency: 2 } }),
)
const times = { startedAt: 1_000, admittedAt: 1_200, endedAt: 5_000 }
const held = {
  ...{ id: 'a', admittedAt: times.admittedAt, ceiling: undefined, tookMs: 4_000, isBroken: false },
  ...{ bytes: undefined, maxOutput: undefined, choices: undefined },
}

function lineOf(
  subscription: string,
  usage: Partial<CountableLine['usage']> = {},
  line: Partial<CountableLine> = {},
): CountableLine {
  return {
    ...{ state: 'ended', isMetered: true, startedAt: times.startedAt, charge: undefined },
    usage: {
      ...{ user: 'ada', subscription, model: 'llm/small', status: 200, bytes: 40 },
      reported: new Map([['total_tokens', 7]]),
      response: { id: 'a', endedAt: times.endedAt },
      ...usage,
    },
    ...line,
  }
}

const charge = { tokens: 7, unusable: false, estimated: 0 }

/** Each as amount, instant and keys. */
const counted = (line: CountableLine, unusable: 'allow' | 'estimate' = 'allow') =>
  lineUses({ ...line, charge: chargeOfLine(line, unusable) }, snapshot).map(
    ({ at, amount, counters }) => [
      ...[amount, at],
      ...counters.map(({ key }) => key.replaceAll('\n', ' ')),
    ],
  )

test('tokens count at the end of the response', async (t) => {
  for (const name of ['plain', 'ending']) {
    for (const more of [{}, { held }]) {
      const expected = [[7, times.endedAt, `${name} llm/small 60000 ada`]]
      t.strictSame(counted(lineOf(name, more)), expected, name)
    }
  }
})

test('where the Subscription says so they count at the admission', async (t) => {
  const key = 'admitting llm/small 60000 ada'
  t.strictSame(counted(lineOf('admitting', { held })), [[7, times.admittedAt, key]])
  const none = [[7, times.startedAt, key]]
  t.strictSame(counted(lineOf('admitting')), none, 'one that holds nothing at its start')
  t.strictSame(counted(lineOf('admitting', { held: { ...held, admittedAt: 0 } })), none)
})

test('a request counts at its admission, whatever its answer', async (t) => {
  const key = 'rated llm/small requests-3600000 ada'
  const tokens = [7, times.endedAt, 'rated llm/small 60000 ada']
  t.strictSame(counted(lineOf('rated', { held })), [tokens, [1, times.admittedAt, key]])
  t.strictSame(counted(lineOf('rated')), [tokens, [1, times.startedAt, key]])
  for (const usage of [{ status: 503 }, { status: 0, hasLeft: true }, { reported: new Map() }]) {
    t.strictSame(counted(lineOf('rated', { ...usage, held })), [[1, times.admittedAt, key]])
  }
  const unmetered = lineOf('rated', { held }, { isMetered: false })
  t.strictSame(counted(unmetered), [[1, times.admittedAt, key]], 'nor whether its tokens count')
  t.strictSame(counted(lineOf('rated', {}, { isMetered: false })), [], 'a list of models')
})

test('what runs, is not metered or has no limits counts nothing', async (t) => {
  for (const name of ['plain', 'admitting', 'rated']) {
    t.strictSame(counted(lineOf(name, { held }, { state: 'running' })), [])
  }
  t.strictSame(counted(lineOf('plain', {}, { isMetered: false })), [])
  t.strictSame(counted(lineOf('plain', { reported: new Map([['total_tokens', 0]]) })), [])
  t.strictSame(counted(lineOf('plain', { status: 500 })), [])
  for (const gone of ['none', 'constructor']) t.strictSame(counted(lineOf(gone)), [])
  t.strictSame(counted(lineOf('plain', { model: 'llm/other' })), [])
})

test('an estimate counts as it is charged', async (t) => {
  const line = lineOf('plain', { reported: new Map() })
  t.strictSame(counted(line, 'estimate'), [[10, times.endedAt, 'plain llm/small 60000 ada']])
})

test('the counters of a key are those with which it was admitted', async (t) => {
  const line = lineOf('plain', { keyCounters: 'key-1 60000,3600000' })
  const [one] = lineUses({ ...line, charge: chargeOfLine(line, 'allow') }, snapshot)
  t.match(one?.counters, [
    { owner: 'ada' },
    { key: 'plain\n@key-1\n60000\nada', owner: 'key-1', window: { ms: 60_000 } },
    { key: 'plain\n@key-1\n3600000\nada', owner: 'key-1', window: { ms: 3_600_000 } },
  ])
  t.equal(one?.counters.length, 3)
})

test('limits without a name are those of the admission, in force or not', async (t) => {
  const windows = '60000,7200000/60000,3600000'
  for (const name of ['gone', 'plain', 'admitting', 'rated']) {
    t.strictSame(
      counted(lineOf(name, { held, windows })),
      [
        [7, times.endedAt, `${name} llm/small 60000 ada`, `${name} llm/small 7200000 ada`],
        [
          ...[1, times.admittedAt, `${name} llm/small requests-60000 ada`],
          `${name} llm/small requests-3600000 ada`,
        ],
      ],
      name,
    )
  }
  const charged = { windows: '60000/', chargesAdmission: true }
  t.match(counted(lineOf('gone', { held, ...charged })), [[7, times.admittedAt]])
  t.match(counted(lineOf('admitting', { held, windows: '60000/' })), [[7, times.endedAt]])
  const [known] = lineUses({ ...lineOf('plain', { windows: '60000/' }), charge }, snapshot)
  const [current] = lineUses({ ...lineOf('plain'), charge }, snapshot)
  t.strictSame(known?.counters, current?.counters)
  for (const odd of ['', '/', 'x', '60000', '0/0', '99999999999999/', '-1/', '6e4/']) {
    t.strictSame(counted(lineOf('plain', { windows: odd })), [], odd)
  }
})

test('a user is counted as lines name them', async (t) => {
  const user = userInLines('x'.repeat(2_000))
  t.strictSame(counted(lineOf('plain', { user })), [
    [7, times.endedAt, `plain llm/small 60000 ${user}`],
  ])
})

test('limits by name are charged by the line alone', async (t) => {
  const limits = [
    'gone all tokens subscription 60000',
    'gone each cost user day@UTC',
    'gone in input group 60000',
    'gone count requests user 60000',
    'gone open concurrency user 0',
    'no limit',
  ]
  const usage: Partial<CountableLine['usage']> = {
    ...{ limits, pool: 'red', prices: 'input=0.000001&output=0.0000025' },
    reported: new Map([
      ['prompt_tokens', 3],
      ['completion_tokens', 4],
      ['total_tokens', 7],
    ]),
  }
  const { startedAt, endedAt } = times
  t.strictSame(counted(lineOf('gone', usage)), [
    [7, endedAt, 'gone #all tokens-60000 '],
    [13_000, endedAt, 'gone #each cost-day@UTC ada'],
    [3, endedAt, 'gone #in input-60000 red'],
    [1, startedAt, 'gone #count requests-60000 ada'],
  ])
  const atAdmission = counted(lineOf('gone', { ...usage, chargesAdmission: true }))
  t.strictSame(
    atAdmission.map(([, at]) => at),
    [startedAt, startedAt, startedAt, startedAt],
  )
  const unmetered = counted(lineOf('gone', usage, { isMetered: false }))
  t.strictSame(unmetered, [[1, startedAt, 'gone #count requests-60000 ada']])
  t.strictSame(counted(lineOf('gone', usage, { state: 'running' })), [])
})

import { test } from 'tap'
import {
  closedCaps,
  describeWidening,
  isUncapped,
  type KeyCaps,
  parseStoredCaps,
  problemOfCaps,
} from '../../../src/keys/rules/key-caps.ts'

const model = (name: string) => ({ namespace: 'llm', name })

const daily = { name: 'daily', of: 'cost', limit: '0.000000001', window: 'day' } as const

test('good caps have no problem', async (t) => {
  for (const caps of [
    {},
    { models: [model('a')] },
    {
      tokenRateLimits: [
        { limit: 1, window: '1s' },
        { limit: 1_000_000_000, window: '8784h' },
      ],
    },
    { allowedAddresses: ['10.0.0.0/8', '::1'] },
    { limits: [daily, { name: 'at-once', of: 'concurrency', limit: 1, enforce: false }] },
    { limits: [{ name: 'a', limit: 1e15, window: '8784h', models: [model('a')] }] },
  ] as readonly KeyCaps[]) {
    t.equal(problemOfCaps(caps), undefined, JSON.stringify(caps))
    t.strictSame(parseStoredCaps(caps), caps)
  }
  t.ok(isUncapped({}))
  t.notOk(isUncapped({ models: [] }))
})

test('a problem names the field and the mend', async (t) => {
  const limit = (limit: number, window = '1m') => ({ tokenRateLimits: [{ limit, window }] })
  for (const [caps, message] of [
    [{ models: [] }, /^models must not be empty; leave it out/],
    [{ models: Array(101).fill(model('a')) }, /^models must have at most 100/],
    [limit(0), /^tokenRateLimits\[0\]\.limit must be a whole number from 1/],
    [limit(1.5), /^tokenRateLimits\[0\]\.limit/],
    [limit(1e9 + 1), /^tokenRateLimits\[0\]\.limit/],
    [limit(1, '1d'), /^tokenRateLimits\[0\]\.window must be 1 to 9999/],
    [limit(1, '9999h'), /^tokenRateLimits\[0\]\.window/],
    [
      { tokenRateLimits: [...limit(1, '1m').tokenRateLimits, ...limit(2, '60s').tokenRateLimits] },
      /^tokenRateLimits\[1\]\.window is there twice/,
    ],
    [{ allowedAddresses: ['10.0.0.0/8', '10.0.0.1/8'] }, /^allowedAddresses\[1\] must be/],
    [{ limits: [] }, /^limits must not be empty; leave it out/],
    [{ limits: Array(21).fill(daily) }, /^limits must have at most 20/],
    [{ limits: [daily, daily] }, /^limits\[1\]\.name "daily" is there twice/],
    [{ limits: [{ ...daily, name: 'Daily' }] }, /^limits\[0\]\.name must be a DNS label/],
    [{ limits: [{ ...daily, of: 'money' }] }, /^limits\[0\]\.of must be one of tokens, input/],
    [
      { limits: [{ ...daily, limit: '0' }] },
      /^limits\[0\]\.limit must be a decimal number above 0/,
    ],
    [{ limits: [{ ...daily, limit: '0.0000000001' }] }, /^limits\[0\]\.limit must be a decimal/],
    [{ limits: [{ ...daily, limit: '9000000000.1' }] }, /^limits\[0\]\.limit must be a decimal/],
    [{ limits: [{ ...daily, limit: 5 }] }, /^limits\[0\].* must be a decimal number in quotes/],
    [{ limits: [{ ...daily, of: 'tokens', limit: '5' }] }, /^limits\[0\].* whole number/],
    [{ limits: [{ ...daily, of: 'tokens', limit: 0 }] }, /^limits\[0\]\.limit must be a whole/],
    [{ limits: [{ ...daily, of: 'tokens', limit: 1e15 + 1 }] }, /^limits\[0\]\.limit must be/],
    [{ limits: [{ ...daily, window: '1d' }] }, /^limits\[0\]\.window must be day, week or month/],
    [{ limits: [{ ...daily, window: undefined }] }, /^limits\[0\] needs a window/],
    [{ limits: [{ ...daily, of: 'concurrency', limit: 1 }] }, /^limits\[0\].* has no window/],
    [{ limits: [{ ...daily, models: [] }] }, /^limits\[0\]\.models needs at least 1/],
    [{ limits: [{ ...daily, per: 'group' }] }, /^limits\[0\]\.per must be one of key/],
  ] as const) {
    t.match(problemOfCaps(caps as KeyCaps), message)
  }
})

test('stored caps that cannot be read refuse everything', async (t) => {
  t.strictSame(parseStoredCaps(null), {})
  for (const odd of [
    ...[
      [],
      'x',
      1,
      { models: 'x' },
      { models: ['x'] },
      { models: [{ name: 'a' }] },
      { models: [] },
    ],
    ...[{ tokenRateLimits: [{ limit: '1', window: '1m' }] }, { allowedAddresses: ['x'] }],
    { models: [model('a')], requestRateLimits: [] },
    { models: null },
    { models: [{ ...model('a'), version: 'later' }] },
    { limits: {} },
    { limits: ['daily'] },
    { limits: [{ ...daily, limit: 5 }] },
    { limits: [{ ...daily, per: 'user' }] },
    { limits: [{ ...daily, until: 'a later version' }] },
  ]) {
    t.equal(parseStoredCaps(odd), closedCaps, JSON.stringify(odd))
  }
})

test('only less is narrower', async (t) => {
  const before: KeyCaps = {
    models: [model('a'), model('b')],
    tokenRateLimits: [
      { limit: 100, window: '1m' },
      { limit: 1_000, window: '1h' },
    ],
    allowedAddresses: ['10.0.0.0/8', '2001:db8::/32'],
  }
  const widens = (changes: object) => describeWidening(before, { ...before, ...changes })
  t.equal(widens({}), undefined)
  t.equal(describeWidening({}, before), undefined, 'new caps narrow')
  t.equal(widens({ models: [model('b')] }), undefined)
  t.match(widens({ models: [model('b'), model('c')] }), /^models may be narrowed, and "llm\/c"/)
  t.match(widens({ models: [{ namespace: 'other', name: 'a' }] }), /"other\/a"/)
  const limits = (...written: [number, string][]) => ({
    tokenRateLimits: written.map(([limit, window]) => ({ limit, window })),
  })
  t.equal(
    widens(limits([100, '60s'], [1, '1h'], [5, '1s'])),
    undefined,
    'the same length, less, more windows',
  )
  t.match(
    widens(limits([101, '1m'], [1_000, '1h'])),
    /^tokenRateLimits must keep the window 1m, with at most 100/,
  )
  t.match(widens(limits([100, '1m'])), /window 1h, with at most 1000/)
  t.equal(widens({ allowedAddresses: ['10.1.0.0/16', '2001:db8::/32'] }), undefined)
  t.match(
    widens({ allowedAddresses: ['10.0.0.0/7'] }),
    /^allowedAddresses may be narrowed, and "10.0.0.0\/7"/,
  )
  for (const name of ['models', 'tokenRateLimits', 'allowedAddresses'] as const) {
    const { [name]: _, ...rest } = before
    t.match(describeWidening(before, rest), new RegExp(`^${name} may be narrowed, not dropped`))
  }
})

test('of limits by name others may come, and amounts go down', async (t) => {
  const hourly = { name: 'hourly', limit: 10, window: '1h', models: [model('a'), model('b')] }
  const cost = { ...daily, limit: '5.5' }
  const before = [cost, hourly]
  const widens = (...limits: object[]) =>
    describeWidening({ limits: before }, { limits: limits as NonNullable<KeyCaps['limits']> })
  t.equal(widens(hourly, { ...cost, limit: '5.499999999' }), undefined, 'in another order')
  t.equal(widens(...before, { name: 'new', limit: 1, window: '1s' }), undefined)
  t.equal(widens(cost, { ...hourly, window: '60m', of: 'tokens', enforce: true }), undefined)
  t.equal(widens(cost, { ...hourly, models: [model('b'), model('a'), model('b')] }), undefined)
  const watched = { ...hourly, enforce: false }
  t.equal(
    describeWidening({ limits: [watched] }, { limits: [hourly] }),
    undefined,
    'it is enforced now',
  )
  t.match(describeWidening({ limits: before }, {}), /^limits may be narrowed, not dropped/)
  t.match(widens(hourly), /^limits must keep "daily"/)
  t.match(widens({ ...cost, name: 'renamed' }, hourly), /^limits must keep "daily"/)
  t.match(
    widens(hourly, { ...cost, limit: '5.500000001' }),
    /^limits\[1\]\.limit must be at most 5\.5/,
  )
  t.match(widens({ ...cost, window: 'week' }, hourly), /^limits\[0\]\.window must stay day/)
  t.match(widens({ ...cost, of: 'tokens', limit: 1 }, hourly), /^limits\[0\]\.of must stay cost/)
  for (const models of [undefined, [model('a')], [model('a'), model('b'), model('c')]]) {
    t.match(widens(cost, { ...hourly, models }), /^limits\[1\]\.models must stay/)
  }
  t.match(widens(cost, watched), /^limits\[1\]\.enforce must stay true/)
})

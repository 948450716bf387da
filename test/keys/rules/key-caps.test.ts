import { test } from 'tap'
import {
  closedCaps,
  isUncapped,
  type KeyCaps,
  problemOfCaps,
  readStoredCaps,
  wideningOf,
} from '../../../src/keys/rules/key-caps.ts'

const model = (name: string) => ({ namespace: 'llm', name })

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
  ]) {
    t.equal(problemOfCaps(caps), undefined, JSON.stringify(caps))
    t.strictSame(readStoredCaps(caps), caps)
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
  ] as const) {
    t.match(problemOfCaps(caps as KeyCaps), message)
  }
})

test('stored caps that cannot be read refuse everything', async (t) => {
  t.strictSame(readStoredCaps(null), {})
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
  ]) {
    t.equal(readStoredCaps(odd), closedCaps, JSON.stringify(odd))
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
  const widens = (changes: object) => wideningOf(before, { ...before, ...changes })
  t.equal(widens({}), undefined)
  t.equal(wideningOf({}, before), undefined, 'new caps narrow')
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
    t.match(wideningOf(before, rest), new RegExp(`^${name} may be narrowed, not dropped`))
  }
})

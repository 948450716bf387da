import { test } from 'tap'
import { createAuthenticate } from '../../src/identity/authenticate.ts'

/** Says which way a credential went. */
const authenticate = createAuthenticate({
  key: (credential) => ({ by: 'token', user: `key ${credential}`, groups: [] }),
  token: (credential) => ({ by: 'token', user: `token ${credential}`, groups: [] }),
})

test('the shape of a credential chooses its way', async (t) => {
  for (const [header, user] of [
    ['Bearer sk-tg-a_b', 'key sk-tg-a_b'],
    ['Bearer sk-', 'key sk-'],
    ['Bearer alice-token', 'token alice-token'],
    ['Bearer eyJ.a.b', 'token eyJ.a.b'],
    ['Bearer SK-tg', 'token SK-tg'],
    ['bearer sk-tg-a_b', 'key sk-tg-a_b'],
    ['BEARER sk-tg-a_b', 'key sk-tg-a_b'],
    ['Bearer   alice-token  ', 'token alice-token'],
    ['Bearer Bearer', 'token Bearer'],
  ] as const) {
    t.match(authenticate(header, 0), { user }, header)
  }
})

test('anything else is no credential', async (t) => {
  for (const header of [
    undefined,
    '',
    ' ',
    'Bearer',
    'Bearer ',
    'Bearer    ',
    'Basic YTpi',
    'sk-tg-a_b',
    'Bearersk-tg-a_b',
    'Bearer\tsk-tg-a_b',
    'Bearer a b',
    'Bearer a,b',
    'Bearer sk-tg-a_b, Bearer sk-tg-c_d',
    'Bearer a,',
    ',Bearer a',
    ' Bearer a',
    'Bearer a\n',
    'Bearer a\u00a0b',
    'Token a',
    'XBearer a',
    'Bearer a\r\nx: y',
  ]) {
    t.equal(authenticate(header, 0), null, JSON.stringify(header))
  }
})

test('a long header is refused in no time', async (t) => {
  const startedAt = process.cpuUsage()
  t.equal(authenticate(`Bearer ${' '.repeat(100_000)},`, 0), null)
  t.equal(authenticate(`Bearer ${'a'.repeat(100_000)} ${' '.repeat(100_000)},`, 0), null)
  t.ok(process.cpuUsage(startedAt).user < 2_000_000)
})

test('instant, source and refusal are passed on', async (t) => {
  const told: unknown[] = []
  const deny = createAuthenticate({
    key: (_, now, source) => {
      told.push(now, source?.())
      return null
    },
    token: async () => null,
  })
  t.equal(
    deny('Bearer sk-a', 7, () => '192.0.2.1'),
    null,
  )
  t.equal(await deny('Bearer a', 8), null)
  t.strictSame(told, [7, '192.0.2.1'])
})

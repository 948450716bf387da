import { test } from 'tap'
import { isAfterTorn, parseJournalLine } from '../../src/journal/journal-line.ts'

/** Exactly as Envoy 1.40 writes it. */
const line =
  '{"bytes":1234,"group":null,"id":"274679e7-7e02-4a9e-b3f9-d869ae3099da","model":"llm/sim","ms":38,' +
  '"reported":{"total_tokens":17},"start":"1795264413046","status":200,' +
  '"subscription":"plenty","user":"ädä"}'
const usage = {
  user: 'ädä',
  subscription: 'plenty',
  model: 'llm/sim',
  status: 200,
  bytes: 1234,
  reported: new Map([['total_tokens', 17]]),
  response: { id: '274679e7-7e02-4a9e-b3f9-d869ae3099da', endedAt: 1795264413084 },
  startedAt: 1795264413046,
}

/** What a line is read as; nothing for none. */
function parseLine(text: string) {
  const line = parseJournalLine(text)
  return line === undefined ? [] : [{ ...line.usage, startedAt: line.startedAt }]
}

function lineWith(fields: Record<string, unknown>): string {
  return JSON.stringify({ ...JSON.parse(line), ...fields })
}

test('a line describes a response', async (t) => {
  t.match(parseJournalLine(line), { state: 'ended', isMetered: true, by: 'check', isSent: false })
  t.strictSame(parseLine(line), [usage])
  const older = lineWith({ bytes: undefined })
  t.strictSame(
    parseLine(older),
    [{ ...usage, bytes: 0 }],
    'as written by versions without a length',
  )
  for (const bytes of ['-4000', '1e999', '0.5', '"9"'])
    t.strictSame(parseLine(line.replace('1234', bytes)), [{ ...usage, bytes: 0 }], bytes)
})

test('a line in Envoy’s text format is read too', async (t) => {
  const text =
    '{"id":"274679e7-7e02-4a9e-b3f9-d869ae3099da","bytes":1234,"ms":38,"start":"1795264413046",' +
    '"status":200,"model":"llm/sim","subscription":"plenty","user":"ann","reported":{"total_tokens":17}}'
  t.strictSame(parseLine(text), [{ ...usage, user: 'ann' }])
  t.strictSame(
    parseLine(line.slice(0, 90) + text),
    [{ ...usage, user: 'ann' }],
    'after a torn line',
  )
  t.strictSame(
    parseLine(text.slice(0, 90) + text),
    [{ ...usage, user: 'ann' }],
    'both in the text format',
  )
  t.strictSame(parseLine(text.slice(0, 90) + line), [usage], 'before a line with sorted fields')
})

test('reported values are passed on unchanged', async (t) => {
  for (const reported of [
    { total_tokens: '17' },
    { total_tokens: 1.5 },
    { input_tokens: 1, output_tokens: 2, start_input_tokens: null },
  ]) {
    t.strictSame(parseLine(lineWith({ reported })), [
      { ...usage, reported: new Map(Object.entries(reported)) },
    ])
  }
  t.strictSame(parseLine(lineWith({ reported: null })), [{ ...usage, reported: new Map() }])
})

test('a client has left if it was the one who ended what had been sent', async (t) => {
  const hasLeft = (fields: object) => parseLine(lineWith({ status: 0, ...fields }))[0]?.hasLeft
  t.equal(hasLeft({ flags: 'DC', sent: 3 }), true)
  t.equal(hasLeft({ flags: 'UF,DR', sent: 0 }), true)
  for (const other of [
    { flags: 'DC', sent: null },
    { flags: '-', sent: 3 },
    { flags: null, sent: 3 },
    { flags: 'UC', sent: 3 },
    { flags: 'DC', sent: 3, status: 200 },
  ]) {
    t.equal(hasLeft(other), undefined, JSON.stringify(other))
  }
})

test('the counters of a key are read if there are any', async (t) => {
  t.strictSame(parseLine(lineWith({ cap: 'id-1 60000' })), [
    { ...usage, keyCounters: 'id-1 60000' },
  ])
  t.strictSame(parseLine(lineWith({ cap: null })), [usage])
})

test('a group is read if there is one', async (t) => {
  t.strictSame(parseLine(lineWith({ group: 'red' })), [{ ...usage, group: 'red' }])
  t.strictSame(parseLine(lineWith({ group: null })), [usage])
})

test('key and payer are read if there are any', async (t) => {
  const payer = 'organization=acme%22&rate=0.01'
  t.strictSame(parseLine(lineWith({ key: 'id-1', payer })), [{ ...usage, keyId: 'id-1', payer }])
  t.strictSame(parseLine(lineWith({ key: '', payer: '-' })), [usage], "Envoy's text")
  t.strictSame(parseLine(lineWith({ key: '-', payer: null })), [usage], "Envoy's JSON")
})

test('any user name is read', async (t) => {
  for (const user of [
    '',
    'o"neill\\',
    'a\nb',
    '\0',
    '🦊',
    '{"id":"x"}',
    '__proto__',
    'x'.repeat(9e3),
  ])
    t.strictSame(
      parseLine(lineWith({ user })),
      [{ ...usage, user }],
      JSON.stringify(user).slice(0, 20),
    )
})

test('a line after a torn one is read', async (t) => {
  const user = 'x{"id":y'
  const whole = lineWith({ user })
  for (let length = 1; length < whole.length; length += 1) {
    t.strictSame(parseLine(whole.slice(0, length) + line), [usage], `torn after ${length}`)
    t.ok(isAfterTorn(whole.slice(0, length) + line))
    t.strictSame(parseLine(whole.slice(0, length)), [])
  }
  t.notOk(isAfterTorn(whole))
  for (const fields of [{ bytes: undefined }, { bytes: undefined, group: undefined }]) {
    t.match(
      parseLine(whole.slice(0, 40) + lineWith(fields)),
      [{ user: 'ädä' }],
      'in an older format',
    )
  }
})

test('lines of another format are left out', async (t) => {
  for (const text of ['', ' ', 'null', '[]', '17', '{}', '\0\0', 'GET / 200', line.slice(1)])
    t.strictSame(parseLine(text), [], text)
  for (const fields of [
    { id: '' },
    { id: null },
    { id: 7 },
    { user: null },
    { user: undefined },
    { subscription: null },
    { model: {} },
    { status: '200' },
    { start: null },
    { start: 1795264413046 },
    { start: '-5' },
    { start: '1e9' },
    { start: '9'.repeat(16) },
    { ms: '38' },
    { ms: -1 },
    { ms: undefined },
  ]) {
    t.strictSame(parseLine(lineWith(fields)), [], JSON.stringify(fields))
  }
  t.match(parseLine(lineWith({ ms: null })), [{ response: { endedAt: 1795264413046 } }])
})

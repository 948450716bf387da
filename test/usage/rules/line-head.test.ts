import { test } from 'tap'
import { formatPayer } from '../../../src/models/rules/payer.ts'
import { userInLines } from '../../../src/ratelimit/rules/counter-key.ts'
import { formatSubject, lineBytes } from '../../../src/usage/rules/line-head.ts'
import { readHead, writeLineHead } from '../../support/line-head.ts'

const asked = {
  startedAt: 1_795_264_413_046,
  id: '274679e7-7e02-4a9e-b3f9-d869ae3099da',
  by: 'check',
  user: 'ann',
  keyId: '0f8fad5b-d9cb-469f-a165-70867728950e',
  keyCounters: undefined,
  held: undefined,
} as const
const subject = { subscription: 'plenty', model: 'llm/sim', payer: undefined, group: undefined }

test('what is known of a request is read as it was written', async (t) => {
  const text = writeLineHead(asked, formatSubject(subject))
  t.match(text, /^\{"start":1795264413046,/, 'the script reads its time at the beginning')
  t.strictSame(readHead(text), {
    ...{ startedAt: asked.startedAt, id: asked.id, by: 'check', user: 'ann' },
    ...{ subscription: 'plenty', model: 'llm/sim', keyId: asked.keyId, held: undefined },
  })
  t.strictSame(readHead(JSON.parse(text)), readHead(text), 'as an object, too')
})

test('a request that holds room says so', async (t) => {
  const held = {
    ...{ admittedAt: 1_795_264_413_050, bytes: 12, maxOutput: 100, choices: 2, ceiling: 200 },
    estimate: { input: 7, bytesPerToken: 4 },
  }
  const more = { ...asked, keyId: '', keyCounters: 'id-1 60000,3600000', held }
  const whole = { ...subject, payer: 'organization=acme&rate=0.1', group: 'red' }
  const read = readHead(writeLineHead(more, formatSubject(whole)))
  t.strictSame(read, {
    ...{ startedAt: asked.startedAt, id: asked.id, by: 'check', user: 'ann' },
    ...{ subscription: 'plenty', model: 'llm/sim', group: 'red' },
    ...{ payer: 'organization=acme&rate=0.1', keyCounters: 'id-1 60000,3600000' },
    estimate: { input: 7, bytesPerToken: 4 },
    held: {
      ...{ admittedAt: 1_795_264_413_050, bytes: 12, maxOutput: 100, choices: 2, ceiling: 200 },
    },
  })
  const none = { ...held, ceiling: Number.POSITIVE_INFINITY, bytes: undefined }
  const least = readHead(writeLineHead({ ...asked, held: none }, formatSubject(subject)))
  t.match(least?.held, { admittedAt: 1_795_264_413_050, bytes: undefined, ceiling: undefined })
})

const hostile = [
  'ann@example.com, of {here} [and] there\u007f',
  'o"neill',
  'back\\slash\\',
  '","user":"bob","x":"',
  '"}\n{"v":1,"check":{"user":"bob"}}\n',
  'line\nbreak\r\n',
  '\u0000\u0001\u2028',
  'ömer, 🦊',
  '\ud800',
  '%REQ(X-REQUEST-ID)%%s%d',
  '-',
  '',
]

test('no name forges anything', async (t) => {
  for (const [i, name] of hostile.entries()) {
    const whole = { subscription: name, model: name, payer: name, group: name }
    const text = writeLineHead(
      { ...asked, user: name, keyCounters: name, id: 'i' },
      formatSubject(whole),
    )
    t.notMatch(text, /[\n\r\0]/, `name ${i} is on one line`)
    const { startedAt, by, keyId } = asked
    const expected = { ...whole, user: name, keyCounters: name, id: 'i', startedAt, by, keyId }
    t.strictSame(readHead(text), { ...expected, held: undefined }, `name ${i}`)
    t.equal(userInLines(name), name, `name ${i} is short enough`)
  }
})

test('long names are cut, and still differ', async (t) => {
  const long = ['x'.repeat(65_536), '"'.repeat(9_000), '\u0001'.repeat(9_000), '🦊'.repeat(9_000)]
  for (const name of long) {
    const writeWith = (value: string) => {
      const attribution = { organizationId: value, costCenter: value, labels: {} }
      const payer = formatPayer(attribution, { billingRate: { perToken: '0.000001' } })
      const whole = { subscription: value, model: value, payer, group: value }
      const keyCounters = `${'x'.repeat(64)} ${Array(8).fill('123456789012').join(',')}`
      const most = 999_999_999_999_999
      const held = {
        ...{ admittedAt: asked.startedAt, bytes: most, maxOutput: most, choices: 9_999_999 },
        ...{ ceiling: most, estimate: { input: most, bytesPerToken: 999_999_999 } },
      }
      const keyId = 'k'.repeat(64)
      return writeLineHead(
        { ...asked, user: value, keyId, keyCounters, held, id: value },
        formatSubject(whole),
      )
    }
    const text = writeWith(name)
    const [one, other] = [readHead(text), readHead(writeWith(`${name}y`))]
    t.ok(Buffer.byteLength(text) <= lineBytes - 900, `${Buffer.byteLength(text)} bytes`)
    t.equal(one?.user, userInLines(name))
    for (const field of ['id', 'user', 'subscription', 'model', 'group', 'payer'] as const) {
      t.not(one?.[field], other?.[field], field)
    }
    t.equal(one?.held?.bytes, 999_999_999_999_999, 'nothing that is read is cut')
    t.ok((one?.payer?.length ?? 0) <= 'organization=&cost_center=&rate='.length + 3 * 160)
    t.match(one?.payer, /^organization=.+&cost_center=.+&rate=0\.000001$/)
    t.equal(userInLines(userInLines(name)), userInLines(name))
  }
  for (const unit of ['x', '"', '\u0001', 'é', '🦊', '\ud800']) {
    for (let length = 100; length < 660; length += 1) {
      const name = unit.repeat(length)
      const isShort = Buffer.byteLength(JSON.stringify(name)) <= 640
      t.equal(userInLines(name) === name, isShort, `${length} of ${JSON.stringify(unit)}`)
    }
  }
})

test('anything else is none', async (t) => {
  const text = writeLineHead(asked, formatSubject(subject))
  for (const other of [
    undefined,
    null,
    '',
    '-',
    '[]',
    'null',
    '1',
    {},
    text.slice(0, -1),
    `${text}}`,
  ]) {
    t.equal(readHead(other), undefined)
  }
  const fields = JSON.parse(text) as object
  for (const [name, value] of [
    ...[
      ['start', '1'],
      ['start', -1],
      ['start', 1.5],
      ['id', ''],
      ['id', 1],
      ['by', 'me'],
    ],
    ...[
      ['user', null],
      ['subscription', 1],
      ['model', undefined],
    ],
  ] as const) {
    t.equal(readHead({ ...fields, [String(name)]: value }), undefined, String(name))
  }
  t.match(readHead({ ...fields, held: {}, estimate: 1 }), { held: undefined })
})

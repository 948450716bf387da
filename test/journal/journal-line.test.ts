import { test } from 'tap'
import { authorize } from '../../src/decide/decide.ts'
import { type JournalLine, parseJournalLine } from '../../src/journal/journal-line.ts'
import { requestOutcomeOf } from '../../src/journal/request-outcome.ts'
import { pathRules } from '../../src/operations/operations.ts'
import { parseTarget } from '../../src/operations/request-target.ts'
import { lineUses } from '../../src/usage/rules/line-charges.ts'
import { formatSubject } from '../../src/usage/rules/line-head.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { writeLineHead } from '../support/line-head.ts'

const start = 1_795_264_413_046
const head = (user = 'ann', held = {}) =>
  writeLineHead(
    {
      ...{ startedAt: start, id: 'r1', by: 'check', user, keyId: 'k1', keyCounters: undefined },
      held: { admittedAt: start, bytes: 9, maxOutput: 5, ceiling: 5, estimate: undefined, ...held },
    },
    formatSubject({ subscription: 'plenty', model: 'llm/sim', payer: undefined, group: undefined }),
  )

/** As the script writes it. */
const ofScript = (check = head(), reported = '{"total_tokens":17}') =>
  `{"v":1,"metered":true,"fb":12,"ms":38,"bytes":1234,"status":200,"sent":true,"reported":${reported},"check":${check}}`

/** As Envoy does, which sorts the names. */
const ofEnvoy = (changes: object = {}, check = head()) => {
  const fields = {
    ...{ bytes: 0, check, details: 'via_upstream', failure: null, fb: null, flags: '-' },
    ...{ metered: true, ms: 38, reported: null, sent: null, status: 500, transport: null },
    ...{ type: 'DownstreamEnd', v: 1, ...changes },
  }
  return JSON.stringify(fields)
}

const asked = { user: 'ann', subscription: 'plenty', model: 'llm/sim', keyId: 'k1' }
const held = { id: 'r1', admittedAt: start, bytes: 9, maxOutput: 5, ceiling: 5, tookMs: 38 }

test('reads what the script has written', async (t) => {
  t.match(parseJournalLine(ofScript()), {
    ...{ state: 'ended', isMetered: true, by: 'check', startedAt: start, firstByteMs: 12 },
    ...{ flags: '', details: 'via_upstream' },
    usage: {
      ...{ ...asked, status: 200, bytes: 1_234, reported: new Map([['total_tokens', 17]]) },
      ...{ response: { id: 'r1', endedAt: start + 38 }, held: { ...held, isBroken: false } },
    },
  })
  t.equal(parseJournalLine(ofScript(head(), 'null'))?.usage.reported.size, 0)
  t.match(parseJournalLine(ofScript()), { isSent: true, transport: '', failure: undefined })
})

test('reads what Envoy has written', async (t) => {
  t.match(parseJournalLine(ofEnvoy()), {
    ...{ state: 'ended', isMetered: true, flags: '', details: 'via_upstream', isSent: false },
    ...{ firstByteMs: undefined, usage: { ...asked, status: 500, reported: new Map() } },
  })
  const running = parseJournalLine(ofEnvoy({ type: 'DownstreamPeriodic', status: 0, sent: 3 }))
  t.match(running, { state: 'running', isSent: true, usage: { status: 0 } })
  t.equal(parseJournalLine(ofEnvoy({ metered: 'if_reported' }))?.isMetered, false)
  t.equal(parseJournalLine(ofEnvoy({ metered: null }))?.isMetered, false)
  const failed = { flags: 'UF,URX', transport: 'TLS_error:|x', failure: 'credential_refused' }
  t.match(parseJournalLine(ofEnvoy(failed)), { ...failed, usage: { held: { isBroken: true } } })
})

test('a line has the windows of the limits with which its request was admitted', async (t) => {
  const team = { groups: ['team'] }
  const ofModels = { requestRateLimits: [{ limit: 5, window: '1h' }] }
  const limits = { 'llm/sim': [[100, '1m']] } as const
  const reserving = { admission: { mode: 'reserve' }, ofModels }
  const snapshot = snapshotOf(
    modelRef('sim'),
    accessPolicy('open', ['llm/sim'], team),
    subscription('plenty', team, limits, { ofModels }),
    subscription('reserving', team, limits, reserving),
  )
  for (const [name, at] of [
    ['plenty', start + 38],
    ['reserving', start],
  ] as const) {
    const caller = {
      by: 'key',
      user: 'ann',
      groups: ['team'],
      keyId: 'k1',
      subscription: name,
    } as const
    const target = parseTarget('/llm/sim/v1/chat/completions')
    if (target === undefined) throw new Error('no target')
    const bodyless = { bodyModel: undefined, requestedSubscription: undefined }
    const decision = authorize(
      { caller, target, method: 'POST', ...bodyless },
      snapshot,
      pathRules(),
    )
    if (!decision.allowed) throw new Error(decision.code)
    const subject = { subscription: name, model: 'llm/sim', payer: undefined, group: undefined }
    const check = writeLineHead(
      {
        ...{ startedAt: start, id: 'r1', by: 'check', user: 'ann', keyId: 'k1' },
        ...{ keyCounters: undefined, held: undefined },
      },
      formatSubject({ ...subject, tariff: decision.tariff }),
    )
    const line = parseJournalLine(ofScript(check), 'allow')
    if (line === undefined) throw new Error('a line that cannot be read')
    const counted = lineUses(line, snapshot)
    t.match(
      counted,
      [
        { at, amount: 17 },
        { at: start, amount: 1 },
      ],
      name,
    )
    const shown = (all: typeof counted) =>
      all.map(({ counters, ...each }) => ({
        ...each,
        counters: counters.map(({ key, owner, window }) => ({ key, owner, window })),
      }))
    t.strictSame(shown(lineUses(line, snapshotOf(modelRef('sim')))), shown(counted), 'it is gone')
  }
})

test('a metered response is charged as its line is read', async (t) => {
  const chargeOf = (text: string) => parseJournalLine(text, 'estimate')?.charge
  t.strictSame(chargeOf(ofScript()), { tokens: 17, unusable: false, estimated: 0 })
  t.match(chargeOf(ofScript(head(), 'null')), { tokens: 309, unusable: true, estimated: 309 })
  t.match(parseJournalLine(ofScript(head(), 'null'), 'allow')?.charge, { tokens: undefined })
  t.equal(chargeOf(ofEnvoy({ metered: null })), undefined)
  t.equal(chargeOf(ofEnvoy({ type: 'DownstreamPeriodic' })), undefined)
  t.equal(parseJournalLine(ofScript())?.charge, undefined, 'without the setting nothing is')
})

test('a line says what it has added to its lane', async (t) => {
  const laneOf = (lane: unknown) => parseJournalLine(ofEnvoy({ lane }))?.lane
  t.strictSame(laneOf('281474976710655 17 3'), { file: 2 ** 48 - 1, added: 17, blocks: [3] })
  t.strictSame(laneOf('5 0 3 4'), { file: 5, added: 0, blocks: [3, 4] })
  const broken = [
    '-',
    null,
    7,
    '',
    '5 17',
    '5 17 3 4 5',
    '5 -1 3',
    '5 1.5 3',
    '5  1 3',
    ' 5 1 3',
    '5 1 3 ',
  ]
  for (const lane of broken) t.equal(laneOf(lane), undefined, String(lane))
  t.equal(parseJournalLine(ofScript())?.lane, undefined)
  const ofTable = parseJournalLine(
    ofEnvoy({ metered: null }, head().replace('"by":"check"', '"by":"table"')),
  )
  t.match(ofTable, { by: 'table', isMetered: true })
})

test('a line says how its request ended at the server', async (t) => {
  const outcome = (text: string) => requestOutcomeOf(parseJournalLine(text) as JournalLine)
  t.strictSame(outcome(ofScript()), {
    ...{ model: 'llm/sim', subscription: 'plenty', requestId: 'r1', status: 200 },
    ...{ durationMs: 38, firstByteMs: 12, failure: undefined, hasResponded: true },
    endedAt: start + 38,
  })
  for (const [changes, reason] of [
    [{ flags: 'UF,URX', transport: 'delayed connect error: Connection refused' }, 'refused'],
    [{ flags: 'UH' }, 'dns'],
    [{ flags: 'UPE', details: 'upstream_reset_after_response_started' }, 'reset'],
    [{ flags: 'UC' }, 'reset'],
    [{ flags: 'SI' }, 'timeout'],
    [{ flags: 'NC' }, 'no_cluster'],
    [{ flags: 'DF' }, 'dns'],
    [{ failure: 'credential_refused' }, 'credential_refused'],
    [{ flags: 'DC' }, undefined],
    [{ flags: 'XX' }, undefined],
    [{}, undefined],
  ] as const) {
    t.equal(outcome(ofEnvoy(changes)).failure?.reason, reason, JSON.stringify(changes))
  }
  t.equal(outcome(ofEnvoy()).hasResponded, true)
  t.equal(outcome(ofEnvoy({ details: 'lua_response' })).hasResponded, false)
})

test('a client that left before its answer began is told from others', async (t) => {
  const hasLeft = (changes: object) => parseJournalLine(ofEnvoy(changes))?.usage.hasLeft ?? false
  const left = { status: 0, sent: 5, flags: 'DC' }
  t.equal(hasLeft(left), true)
  t.equal(hasLeft({ ...left, flags: 'UC,DR' }), true)
  t.equal(hasLeft({ ...left, flags: 'DCX' }), false)
  t.equal(hasLeft({ ...left, sent: null }), false)
  t.equal(hasLeft({ ...left, status: 200 }), false)
})

test('a torn line takes no other with it', async (t) => {
  const whole = ofScript(head('","user":"bob'))
  for (let end = 0; end < whole.length; end += 1) {
    if (parseJournalLine(whole.slice(0, end)) !== undefined) t.fail(`${end} bytes are no line`)
  }
  const users = ['ann', '{"bytes":', '\\{"bytes":1', '"}{"bytes":"']
  for (const user of users) {
    const line = ofEnvoy({}, head(user))
    for (let end = 1; end < line.length; end += 1) {
      const read = parseJournalLine(line.slice(0, end) + line)
      if (read?.usage.user !== user) t.fail(`after ${end} bytes the line is ${read?.usage.user}`)
    }
  }
})

test('what is no line of a known form is none', async (t) => {
  for (const text of ['', '{}', 'null', '[]', '{"v":1}', 'x', '\0'])
    t.equal(parseJournalLine(text), undefined)
  for (const changes of [
    ...[{ v: 2 }, { v: '1' }, { type: 'DownstreamStart' }, { check: null }, { check: '-' }],
    ...[{ ms: null }, { ms: -1 }, { status: '200' }, { status: null }],
  ]) {
    t.equal(parseJournalLine(ofEnvoy(changes)), undefined, JSON.stringify(changes))
  }
  t.equal(parseJournalLine(ofEnvoy({ bytes: null }))?.usage.bytes, 0)
})

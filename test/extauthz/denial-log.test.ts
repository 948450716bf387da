import { test } from 'tap'
import { createDenialLog } from '../../src/extauthz/denial-log.ts'
import type { RefusedCheck } from '../../src/extauthz/refused-check.ts'
import type { KeyCaller } from '../../src/identity/rules/caller.ts'

const caller: KeyCaller = {
  by: 'key',
  user: 'ada',
  groups: ['team-a'],
  keyId: 'key-1',
  subscription: 'basic',
}
const refused: RefusedCheck = {
  code: 'model_not_allowed',
  denial: { allowed: false, code: 'model_not_allowed' },
  now: 0,
  method: 'POST',
  path: '/llm/small/v1/chat/completions',
  bodyModel: undefined,
  status: 403,
  reason: 'no such model',
  caller,
  model: 'llm/small',
  subscription: undefined,
  source: () => '2001:db8:1:2:3::4',
  requestId: 'request-1',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00',
}

/** A log with a clock that the test sets, and its lines. */
function createLog(perSecond = 2) {
  const lines: Record<string, unknown>[] = []
  const clock = { now: 0 }
  const info = (line: unknown, message?: string): void => {
    lines.push({ ...(line as object), message })
  }
  const log = createDenialLog({ log: { info }, perSecond, monotonic: () => clock.now })
  return { log, lines, clock }
}

test('a refusal is logged with who, what and from where', async (t) => {
  const { log, lines } = createLog()
  log.check(refused)
  log.request({
    code: 'admin_required',
    caller: { by: 'token', proof: { by: 'file' }, user: 'bob', groups: [] },
    method: 'POST',
    route: '/v1/api-keys/search',
    address: '192.0.2.7',
    requestId: 'request-2',
    traceparent: undefined,
  })
  t.match(lines, [
    {
      message: 'request refused',
      code: 'model_not_allowed',
      reason: 'no such model',
      status: 403,
      user: 'ada',
      keyId: 'key-1',
      subscription: 'basic',
      model: 'llm/small',
      network: '2001:db8:1:2',
      request_id: 'request-1',
      trace_id: '0af7651916cd43dd8448eb211c80319c',
    },
    {
      code: 'admin_required',
      status: 403,
      user: 'bob',
      method: 'POST',
      route: '/v1/api-keys/search',
      network: '192.0.2.7',
      request_id: 'request-2',
    },
  ])
})

test('the number of lines per code and second is limited', async (t) => {
  const { log, lines, clock } = createLog()
  for (let i = 0; i < 10; i += 1) log.check(refused)
  log.check({ ...refused, code: 'token_limit_exceeded' })
  t.equal(lines.length, 3, 'another code has a limit of its own')
  clock.now = 1_000
  log.check(refused)
  t.match(lines.slice(3), [
    { message: 'refusals were not logged', code: 'model_not_allowed', omitted: 8 },
    { message: 'request refused' },
  ])
  log.flush()
  t.equal(lines.length, 5, 'none was suppressed since')
})

test('suppressed lines are reported even if no refusal follows', async (t) => {
  const { log, lines } = createLog(0)
  log.check(refused)
  log.check(refused)
  t.equal(lines.length, 0)
  log.flush()
  t.match(lines, [{ code: 'model_not_allowed', omitted: 2 }])
})

test('a client cannot write secrets or long texts into the log', async (t) => {
  const { log, lines } = createLog()
  const secret = 'sk-tg-abcdefghijkl_secretsecretsecret'
  log.check({
    ...refused,
    reason: `the field ${secret}`,
    caller: null,
    model: `${secret}\n${'x'.repeat(10_000)}`,
    subscription: secret,
    requestId: secret,
  })
  const text = JSON.stringify(lines)
  t.notOk(text.includes(secret))
  t.ok(text.length < 1_000)
})

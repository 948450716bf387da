import { chatPath, gatewayTests } from '../support/gateway.ts'

const test = gatewayTests()
const shared = '/v1/chat/completions'
const unknownPath = '/llm/nothing/v1/chat/completions'

test('refuses a revoked key at once', async (t, gateway) => {
  const user = gateway.newUser()
  const { key, id } = await gateway.mint({ user })
  t.equal((await gateway.chat(key)).status, 200)
  const revoked = await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`, { method: 'DELETE' })
  t.equal(revoked.status, 200)
  for (const path of [chatPath, shared, '/llm/sim/v1/models']) {
    t.equal((await gateway.chat(key, {}, {}, path)).status, 401, path)
  }
  t.equal((await gateway.ask(`/v1/api-keys/${id}`, key)).status, 401)
  // The holder of the key learns the reason; a client that knows only its id does not.
  for (const path of [chatPath, `/v1/api-keys/${id}`]) {
    const { text, headers } = await gateway.ask(path, key)
    const { error } = JSON.parse(text)
    t.match(error, {
      code: 'credential_invalid',
      message: /^The API key was revoked at \d{4}-\d\d-\d\dT[\d:]{8}Z\.$/,
    })
    t.equal(headers.get('www-authenticate')?.includes(error.message), true)
    const guessed = await gateway.ask(path, `${key.slice(0, key.indexOf('_'))}_${'x'.repeat(43)}`)
    t.equal(guessed.status, 401)
    t.notMatch(guessed.text, 'revoked')
  }
})

test('refuses an expired key from its second of expiry', async (t, gateway) => {
  const { key, expiresAt } = await gateway.mint({ expiresIn: 2 })
  const end = Date.parse(expiresAt)
  const answers: { sentAt: number; endedAt: number; status: number }[] = []
  do {
    const sentAt = Date.now()
    const { status } = await gateway.chat(key)
    answers.push({ sentAt, endedAt: Date.now(), status })
  } while (answers.at(-1)?.status === 200 && Date.now() < end + 5_000)
  t.equal(answers[0]?.status, 200)
  t.equal(answers.at(-1)?.status, 401)
  t.ok(
    answers.every(({ sentAt, endedAt, status }) => {
      // Timestamps are truncated to whole seconds.
      if (status === 401) return endedAt >= end
      return sentAt < end + 1_000
    }),
  )
  const { status, text } = await gateway.chat(key)
  t.equal(status, 401)
  t.equal(JSON.parse(text).error.message, `The API key expired at ${expiresAt}.`)
})

test('an identity token can only list models', async (t, gateway) => {
  const token = `token-${gateway.newUser()}`
  for (const path of [chatPath, shared, '/llm/sim/v1/embeddings', '/llm/sim/v1/models/sim-small']) {
    const { status, text } = await gateway.chat(token, {}, {}, path)
    t.equal(status, 401, path)
    t.equal(JSON.parse(text).error.type, 'authentication_error')
  }
  for (const [caller, subscription, status] of [
    [token, 'plenty', 200],
    [token, 'foreign', 403],
    ['token-guest', 'plenty', 403],
    ['token-unknown', 'plenty', 401],
    [undefined, 'plenty', 401],
  ] as const) {
    const headers = { 'x-maas-subscription': subscription }
    const listed = await gateway.ask('/llm/sim/v1/models', caller, { headers })
    t.equal(listed.status, status, `${caller} by ${subscription}`)
  }
})

test('an unknown model is 401 without a valid key, and 403 with one', async (t, gateway) => {
  const { key } = await gateway.mint()
  const refusals: string[] = []
  for (const [path, model] of [
    [unknownPath, 'sim'],
    ['/llm/other-than-that/v1/chat/completions', 'sim'],
    ['/nothing/sim/v1/chat/completions', 'sim'],
    [shared, 'nothing'],
    [shared, 'other-than-that'],
    ['/v1/embeddings', 'nothing'],
    ['/llm/nothing/v1/embeddings', 'sim'],
  ] as const) {
    t.equal((await gateway.chat(undefined, {}, { model }, path)).status, 401, path)
    t.equal((await gateway.chat('token-unknown', {}, { model }, path)).status, 401, path)
    const refused = await gateway.chat(key, {}, { model }, path)
    t.equal(refused.status, 403, path)
    t.equal(refused.headers.get('x-ext-auth-reason'), 'unauthorized')
    refusals.push(refused.text.replace(/The model \\"[^\\]+\\"/, 'The model'))
  }
  t.equal(new Set(refusals).size, 1, 'identical but for the name that was asked for')
  t.match(JSON.parse(refusals[0] ?? ''), {
    error: { type: 'permission_error', code: 'model_not_allowed', message: String },
  })
})

test('all invalid keys get the same response', async (t, gateway) => {
  const { key } = await gateway.mint()
  const refusals: string[] = []
  for (const forged of [
    'sk-tg-0123456789abcdef_0123456789abcdef0123456789abcdef0123456789a',
    key.replace('sk-tg-', 'sk-xx-'),
    key.replace('_', ''),
    `${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`,
    'sk-tg-',
    'sk-',
    'x',
  ]) {
    const { status, text } = await gateway.chat(forged)
    t.equal(status, 401, forged.slice(0, 8))
    refusals.push(text)
  }
  t.equal(new Set(refusals).size, 1, 'identical byte for byte')
})

test('a repeated creation never ends a secret in use', async (t, gateway) => {
  const send = (user: string) =>
    gateway.ask('/v1/api-keys', `token-${user}`, {
      method: 'POST',
      headers: { 'idempotency-key': 'once' },
      body: '{"name":"one"}',
    })
  const user = gateway.newUser()
  const { key } = JSON.parse((await send(user)).text)
  t.equal((await gateway.chat(key)).status, 200)
  const again = await send(user)
  t.equal(again.status, 409, again.text)
  t.equal((await gateway.chat(key)).status, 200)

  const other = gateway.newUser()
  const lost = JSON.parse((await send(other)).text)
  const second = await send(other)
  t.equal(second.status, 201)
  t.equal((await gateway.chat(lost.key)).status, 401, 'nobody had the first one')
  t.equal((await gateway.chat(JSON.parse(second.text).key)).status, 200)
})

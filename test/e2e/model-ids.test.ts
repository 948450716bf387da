import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { timesPlain } from '../support/envoy-load.ts'
import { gatewayTests } from '../support/gateway.ts'

const team = { groups: ['team'] }
const hour = [[1_000_000_000, '1h']] as const
/** The most that a ModelRef may have. */
const longIds = Array.from({ length: 256 }, (_, i) =>
  `acme/${'x'.repeat(56)}${1_000 + i}`.slice(0, 64),
)
const test = gatewayTests({
  resources: (backendUrl) => [
    modelRef('sim', { backendUrl, modelIds: ['acme/Sim-7B', 'sim:latest'] }),
    // Of such a model the size of each request is asked for, so Check knows the body's name.
    modelRef('sized', {
      ...{ backendUrl, modelIds: ['acme/Sim-7B', 'sim:latest'] },
      output: { usageOfAllAnswers: false },
    }),
    modelRef('many', { backendUrl, modelIds: longIds }),
    modelRef('twin', { backendUrl }, 'east'),
    modelRef('twin', { backendUrl, modelIds: ['only-west'] }, 'west'),
    modelRef('twin', { backendUrl }, 'shut'),
    accessPolicy('open', ['llm/sim', 'llm/sized', 'llm/many', 'east/twin', 'west/twin'], team),
    accessPolicy('shut', ['shut/twin'], { groups: ['nobody'] }),
    subscription('plenty', team, { 'llm/sim': hour, 'llm/sized': hour, 'llm/many': hour }),
    subscription('east', team, { 'east/twin': hour }),
    subscription('both', team, { 'east/twin': hour, 'west/twin': hour, 'shut/twin': hour }),
  ],
})
const shared = '/v1/chat/completions'

test('as many ids as a ModelRef may have cost little', async (t, gateway) => {
  const { key } = await gateway.mint()
  const send = (name: string, model: string) => async () => {
    const { status, text } = await gateway.chat(
      key,
      {},
      { model },
      `/llm/${name}/v1/chat/completions`,
    )
    if (status !== 200) throw new Error(`${status} for ${name}: ${text}`)
  }
  const plain = send('sim', 'sim')
  const others = { first: send('many', 'many'), last: send('many', longIds.at(-1) ?? '') }
  const times = await timesPlain(gateway.envoy.pid, plain, others, 2)
  for (const [name, ratio] of times) {
    t.comment(`${name}: ${ratio.toFixed(2)} times`)
    t.ok(ratio <= 2, `${name}: ${ratio.toFixed(2)} times`)
  }
  const refused = await gateway.chat(key, {}, { model: 'sim' }, '/llm/many/v1/chat/completions')
  t.equal(refused.status, 403)
  const asked = await gateway.ask('/llm/many/v1/chat/completions', key, {
    method: 'POST',
    headers: { 'x-long': 'x'.repeat(24_000) },
    body: JSON.stringify({ model: 'many', messages: [] }),
  })
  t.equal(asked.status, 200, 'beside long headers of the client')
})

const keep = { echo: true }

test('a model can be called by the ids of its ModelRef', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const model of ['sim', 'acme/Sim-7B', 'sim:latest']) {
    const { status, text } = await gateway.chat(key, keep, { model }, shared)
    t.equal(status, 200, model)
    t.equal(
      JSON.parse(JSON.parse(text).sim_echo.body).model,
      model,
      'the model gets the id as the client wrote it',
    )
  }
  for (const model of ['acme/sim-7b', 'Sim-7B', 'llm/sim', 'sim:', 'constructor']) {
    t.equal((await gateway.chat(key, {}, { model }, shared)).status, 403, model)
  }
})

test('an id of the original is replaced by a name that the server knows', async (t, gateway) => {
  const { key } = await gateway.mint()
  const id = 'publishers/llm/models/sim'
  for (const stream of [false, true]) {
    const { status, text } = await gateway.chat(key, keep, { model: id, stream }, shared)
    t.equal(status, 200)
    t.match(text, 'acme/Sim-7B')
    t.notMatch(text, id)
  }
  for (const model of ['publishers/shut/models/twin', 'publishers/llm/models/none']) {
    const { status, text } = await gateway.chat(key, {}, { model }, shared)
    t.equal(status, 403, model)
    t.match(JSON.parse(text).error.message, model)
  }
})

test('an ambiguous name means the model that the subscription covers', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'east' })
  t.equal((await gateway.chat(key, {}, { model: 'twin' }, shared)).status, 200)
  t.equal((await gateway.chat(key, {}, { model: 'only-west' }, shared)).status, 403)
})

test('refuses a name of several models that are not covered', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'both' })
  const { key: other } = await gateway.mint()
  t.equal((await gateway.chat(key, {}, { model: 'twin' }, shared)).status, 200, 'the earlier one')
  const { status, text } = await gateway.chat(other, {}, { model: 'twin' }, shared)
  t.equal(status, 400)
  const { error } = JSON.parse(text)
  t.equal(error.code, 'model_ambiguous')
  for (const path of ['/east/twin', '/west/twin']) {
    t.match(error.message, `${path}/v1/chat/completions`)
    t.equal(
      (await gateway.chat(key, {}, { model: 'twin' }, `${path}/v1/chat/completions`)).status,
      200,
    )
  }
  t.notMatch(error.message, 'shut', 'models that the caller may not use are not named')
  t.equal((await gateway.chat(key, {}, { model: 'only-west' }, shared)).status, 200)
})

test("on a model's path the body may name no other model", async (t, gateway) => {
  const { key } = await gateway.mint()
  const ask = (operation: string, body: object) =>
    gateway.ask(`/llm/sim${operation}`, key, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const before = await gateway.model.tally()
  for (const operation of ['/v1/chat/completions', '/v1/completions', '/v1/embeddings']) {
    for (const model of ['twin', 'sim:lates', 'sim\tacme/Sim-7B', '', 5]) {
      const { status } = await ask(operation, { model, messages: [], prompt: 'a', input: 'a' })
      t.equal(status, model === '' ? 400 : 403, `${operation} ${JSON.stringify(model)}`)
    }
    t.equal((await ask(operation, { messages: [] })).status, 400, `${operation} without a model`)
  }
  const refused = await ask('/v1/completions', { model: 'twin' })
  const unknown = await ask('/v1/completions', { model: 'nothing' })
  t.equal(
    refused.text.replace('twin', 'nothing'),
    unknown.text,
    'forbidden and unknown models get the same response',
  )
  t.strictSame(await gateway.model.tally(), before, 'the model gets no request')
  for (const model of ['sim', 'acme/Sim-7B', 'sim:latest']) {
    t.equal((await ask('/v1/embeddings', { model, input: 'a' })).status, 200, model)
  }
  for (const model of ['twin', 'sim:lates', 'sim\tacme/Sim-7B', 'x'.repeat(2_000), '\u0000', 5]) {
    const answers = await Promise.all(
      ['sim', 'sized'].map((name) =>
        gateway.chat(key, {}, { model }, `/llm/${name}/v1/chat/completions`),
      ),
    )
    t.strictSame(
      answers.map(({ status, headers }) => [
        status,
        headers.get('x-should-retry'),
        headers.get('x-ext-auth-reason'),
      ]),
      Array(2).fill([403, 'false', 'unauthorized']),
      String(model),
    )
    const error = { type: 'permission_error', code: 'model_not_allowed' }
    for (const { text } of answers) t.match(JSON.parse(text).error, error)
    if (model === 'twin') t.equal(answers[0]?.text, answers[1]?.text)
  }
  const unnamed = { model: undefined }
  for (const name of ['sim', 'sized']) {
    const { status } = await gateway.chat(key, {}, unnamed, `/llm/${name}/v1/chat/completions`)
    t.equal(status, 400, `${name} without a model`)
    for (const model of [name, 'acme/Sim-7B', 'sim:latest']) {
      const at = `/llm/${name}/v1/chat/completions`
      t.equal((await gateway.chat(key, {}, { model }, at)).status, 200, `${model} of ${name}`)
    }
  }
  const echo = await ask('/v1/completions', { model: 'sim', prompt: 'a', sim: { echo: true } })
  const seen = Object.keys(JSON.parse(echo.text).sim_echo.headers)
  t.strictSame(
    seen.filter((name) => name.includes('tollgate')),
    ['x-tollgate-hop'],
  )
})

test('on the path of a model without ids the body may name any model', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'east' })
  t.equal(
    (await gateway.chat(key, {}, { model: 'any' }, '/east/twin/v1/chat/completions')).status,
    200,
  )
})

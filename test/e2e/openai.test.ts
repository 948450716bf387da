import OpenAI, {
  AuthenticationError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from 'openai'
import { type Gateway, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'

const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: 1_000_000, one: 1 }),
    meter,
  ],
})
const messages = [{ role: 'user' as const, content: 'Hi' }]

/** The client library with its base URL on the shared routes or below a model's path. */
function clientOf(gateway: Gateway, apiKey: string, path = '/v1'): OpenAI {
  return new OpenAI({ baseURL: gateway.url + path, apiKey, maxRetries: 0 })
}

for (const path of ['/v1', '/llm/sim/v1']) {
  test(`the openai client chats at ${path}`, async (t, gateway) => {
    const { key } = await gateway.mint()
    const { chat } = clientOf(gateway, key, path)
    const answer = await chat.completions.create({ model: 'sim', messages })
    t.match(answer.choices[0]?.message.content, /^a small river/)
    t.equal(answer.usage?.total_tokens, 17)
  })

  test(`the openai client streams at ${path}`, async (t, gateway) => {
    const { key } = await gateway.mint({ subscription: 'one' })
    const { chat } = clientOf(gateway, key, path)
    let text = ''
    for await (const chunk of await chat.completions.create({
      model: 'sim',
      messages,
      stream: true,
    })) {
      text += chunk.choices[0]?.delta.content ?? ''
    }
    t.match(text, /^a small river/)
    await gateway.settled()
    t.ok(await gateway.isSpent(key), 'the stream was counted')
  })
}

test('the openai client recognizes our errors', async (t, gateway) => {
  const ask = async (key: string, model = 'sim', path = '/v1') => {
    const { chat } = clientOf(gateway, key, path)
    return chat.completions.create({ model, messages, stream: true }).then(
      () => undefined,
      (error: unknown) => error,
    )
  }
  const { key } = await gateway.mint({ subscription: 'one' })
  for (const path of ['/v1', '/llm/nothing/v1']) {
    const unknown = await ask('sk-tg-unknown', 'sim', path)
    t.ok(unknown instanceof AuthenticationError)
    t.match(unknown, { status: 401, code: 'credential_invalid', type: 'authentication_error' })
    const denied = await ask(key, 'nothing', path)
    t.ok(denied instanceof PermissionDeniedError)
    t.match(denied, { status: 403, code: 'model_not_allowed', type: 'permission_error' })
  }
  await gateway.chat(key)
  await gateway.settled()
  const limited = await ask(key)
  t.ok(limited instanceof RateLimitError)
  t.match(limited, { status: 429, code: 'rate_limit_exceeded', type: 'usage_limit_reached' })
})

test('the openai client uses other operations', async (t, gateway) => {
  const { key } = await gateway.mint()
  const client = clientOf(gateway, key)
  const embedding = await client.embeddings.create({ model: 'sim', input: 'hello' })
  t.ok((embedding.data[0]?.embedding.length ?? 0) > 0)
  const response = await client.responses.create({ model: 'sim', input: 'hello' })
  t.match(response.output_text, /^a small river/)
  const listed = await clientOf(gateway, key, '/llm/sim/v1').models.list()
  t.ok(listed.data.some(({ id }) => id === 'sim-small'))
})

test('the openai client asks for a model whose id has a slash', async (t, gateway) => {
  const { key } = await gateway.mint()
  const { models } = clientOf(gateway, key, '/llm/sim/v1')
  // The model server says so: what it got is the id as the client wrote it.
  await t.rejects(models.retrieve('meta-llama/name'), { status: 404, code: 'model_not_found' })
  const shared = clientOf(gateway, key).models
  const unknown = await shared.retrieve('meta-llama/name').catch((error: unknown) => error)
  t.ok(unknown instanceof NotFoundError)
})

test('the openai client sends an empty credential, or the same one twice', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const other of ['', ' ', key]) {
    const client = clientOf(gateway, key).withOptions({ defaultHeaders: { 'x-api-key': other } })
    const answer = await client.chat.completions.create({ model: 'sim', messages })
    t.equal(answer.usage?.total_tokens, 17, `beside ${JSON.stringify(other.slice(0, 3))}`)
    t.ok(await client.models.list())
  }
})

import Anthropic, { RateLimitError as AnthropicRateLimitError } from '@anthropic-ai/sdk'
import OpenAI, { RateLimitError } from 'openai'
import type { Test } from 'tap'
import { subscription } from '../support/documents.ts'
import { type Gateway, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { withTimeIn } from '../support/window-ends.ts'

const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    subscription('short', { groups: ['team'] }, { 'llm/sim': [[10, '4s']] }),
    ...subscriptions({ hour: 10 }),
    meter,
  ],
})
const messages = [{ role: 'user' as const, content: 'Hi' }]

interface Attempt {
  readonly startedAt: number
  readonly endedAt: number
  readonly status: number
  readonly retryAfterS: number
}

/** A fetch that records its calls. */
function recorder() {
  const attempts: Attempt[] = []
  const recorded: typeof fetch = async (input, init) => {
    const startedAt = performance.now()
    const response = await fetch(input, init)
    const retryAfterS = Number(response.headers.get('retry-after'))
    const { status } = response
    attempts.push({ startedAt, endedAt: performance.now(), status, retryAfterS })
    return response
  }
  return { attempts, fetch: recorded }
}

/** Makes a call by each client library with this many retries; returns the model's answer. */
const clients = {
  openai: async (gateway: Gateway, apiKey: string, maxRetries: number, via: typeof fetch) => {
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries, fetch: via })
    const answer = await client.chat.completions.create({ model: 'sim', messages })
    return answer.choices[0]?.message.content ?? ''
  },
  anthropic: async (gateway: Gateway, authToken: string, maxRetries: number, via: typeof fetch) => {
    const client = new Anthropic({
      baseURL: gateway.url,
      apiKey: null,
      authToken,
      maxRetries,
      fetch: via,
    })
    const answer = await client.messages.create({ model: 'sim', max_tokens: 16, messages })
    const [block] = answer.content
    return block?.type === 'text' ? block.text : ''
  },
}

async function spent(gateway: Gateway, name: 'short' | 'hour'): Promise<string> {
  const user = name === 'short' ? withTimeIn('4s', 3_500, gateway.newUser) : gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: name })
  await gateway.chat(key, { totalTokens: 10 })
  await poll(() => gateway.isSpent(key), 'the limit is reached')
  return key
}

/**
 * Checks that one attempt was refused, and that the client waited before the next, successful one.
 */
function waited(t: Test, attempts: readonly Attempt[]): void {
  t.strictSame(
    attempts.map(({ status }) => status),
    [429, 200],
  )
  const [first, second] = attempts as [Attempt, Attempt]
  t.ok(first.retryAfterS >= 1 && first.retryAfterS <= 4, `retry-after ${first.retryAfterS}`)
  const waitedMs = second.startedAt - first.endedAt
  // Timers may be early by a millisecond or two.
  t.ok(waitedMs > first.retryAfterS * 1_000 - 20, `waited ${waitedMs} ms`)
}

for (const [name, call] of Object.entries(clients)) {
  test(`the ${name} client waits for the end of the window`, async (t, gateway) => {
    const key = await spent(gateway, 'short')
    const { attempts, fetch } = recorder()
    t.match(await call(gateway, key, 1, fetch), /^a small river/)
    waited(t, attempts)
  })

  test(`the ${name} client does not retry if the wait is too long`, async (t, gateway) => {
    const key = await spent(gateway, 'hour')
    const { attempts, fetch } = recorder()
    const error = await call(gateway, key, 5, fetch).catch((thrown: unknown) => thrown)
    t.ok(error instanceof RateLimitError || error instanceof AnthropicRateLimitError)
    t.match(error, {
      status: 429,
      message: /10 of 10 tokens in 1h/,
      ...(name === 'openai' ? { type: 'usage_limit_reached', code: 'rate_limit_exceeded' } : {}),
    })
    t.equal(attempts.length, 1)
  })
}

test('the anthropic client recognizes our errors', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'hour' })
  const ask = async (authToken: string, model: string) => {
    const client = new Anthropic({ baseURL: gateway.url, apiKey: null, authToken, maxRetries: 0 })
    return client.messages.create({ model, max_tokens: 1, messages }).then(
      () => undefined,
      (error: unknown) => error,
    )
  }
  const unknown = await ask('sk-tg-unknown', 'sim')
  t.ok(unknown instanceof Anthropic.AuthenticationError)
  t.match(unknown, { status: 401, type: 'authentication_error' })
  const denied = await ask(key, 'nothing')
  t.ok(denied instanceof Anthropic.NotFoundError)
  t.match(denied, { status: 404, type: 'not_found_error' })
})

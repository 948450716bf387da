/** The three sample commands that show what the gateway does: a 200, a 403 and a 429. */
import { setTimeout as delay } from 'node:timers/promises'
import { StartError } from '../src/runtime/start-error.ts'

/** The gateway's address, and the signal that ends the wait for it. */
interface TryLinesOptions {
  readonly gateway: string
  readonly signal: AbortSignal
}

const withinMs = 20_000
const pollMs = 50

/**
 * Creates three ephemeral keys for the sample identities and returns the lines of three `curl` commands
 * that use them, each below a comment with its status. The first returns 200, which also tests the whole path to a model; the second 403; the
 * third 429, because its key's single token per day is spent here. Rejects with a StartError if
 * that fails.
 */
export async function makeTryLines({ gateway, signal }: TryLinesOptions): Promise<string[]> {
  const mint = async (identity: string, subscription: string) => {
    const response = await fetch(`${gateway}/v1/api-keys`, {
      method: 'POST',
      signal,
      headers: {
        authorization: `Bearer ${identity}-token`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ name: 'npm-start', ephemeral: true, subscription }),
    })
    const answer = await response.text()
    const key: unknown = response.status === 201 ? JSON.parse(answer).key : undefined
    if (typeof key === 'string') return key
    throw new StartError(`No key for ${identity} (${response.status}): ${answer.slice(0, 300)}`)
  }
  const requests = [
    {
      key: await mint('alice', 'team-a-premium'),
      model: 'sim-small',
      status: 200,
      shows: 'an answer of the model',
    },
    {
      key: await mint('bob', 'team-b-only'),
      model: 'sim-large',
      status: 403,
      shows: 'a model that this key may not use',
    },
    {
      key: await mint('alice', 'team-a-tiny'),
      model: 'sim-small',
      status: 429,
      shows: 'a limit that is used up',
    },
  ]
  const url = `${gateway}/v1/chat/completions`
  const lines: string[] = []
  for (const { key, model, status, shows } of requests) {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] })
    await untilAnswered(status, url, key, body, signal)
    lines.push(
      `# ${status}: ${shows}`,
      `curl -i ${url} \\`,
      `  -H 'authorization: Bearer ${key}' \\`,
      `  -d '${body}'`,
    )
  }
  return lines
}

/** Retries until the response is as expected, because usage is counted shortly after a response. */
async function untilAnswered(
  expected: number,
  url: string,
  key: string,
  body: string,
  signal: AbortSignal,
): Promise<void> {
  const deadline = Date.now() + withinMs
  for (let last = ''; ; await delay(pollMs)) {
    if (Date.now() > deadline) {
      throw new StartError(
        `A sample request got an unexpected response (expected: ${expected}): ${last}`,
      )
    }
    const response = await fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body,
      signal,
    })
    last = `${response.status} ${(await response.text()).slice(0, 300)}`
    if (response.status === expected) return
  }
}

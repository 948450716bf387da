/** The three sample commands that show what the gateway does: a 200, a 403 and a 429. */
import { setTimeout as delay } from 'node:timers/promises'

interface TryLinesOptions {
  /** The gateway's address. */
  readonly gateway: string
  /** Ends the wait for it. */
  readonly signal: AbortSignal
  readonly log: (line: string) => void
  /** How long a response may take to be the expected one, in milliseconds. */
  readonly withinMs?: number
}

const pollMs = 50

const samples = [
  {
    ...{ identity: 'alice', subscription: 'team-a-premium', model: 'sim-small' },
    ...{ status: 200, shows: 'an answer of the model' },
  },
  {
    ...{ identity: 'bob', subscription: 'team-b-only', model: 'sim-large' },
    ...{ status: 403, shows: 'a model that this key may not use' },
  },
  {
    ...{ identity: 'alice', subscription: 'team-a-tiny', model: 'sim-small' },
    ...{ status: 429, shows: 'a limit that is used up' },
  },
]

/**
 * Creates three ephemeral keys for the sample identities and returns the lines of three `curl` commands
 * that use them, each below a comment with its status. The first returns 200, which also tests the whole path to a model; the second 403; the
 * third 429, because its key's single token per day is spent here. A command with another response is left out, with a line of
 * the log: the sample may have been edited, or its limits used up.
 */
export async function makeTryLines(options: TryLinesOptions): Promise<string[]> {
  const { gateway, signal, log, withinMs = 20_000 } = options
  const url = `${gateway}/v1/chat/completions`
  const lines: string[] = []
  for (const { identity, subscription, model, status, shows } of samples) {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] })
    try {
      const key = await mint(gateway, identity, subscription, signal)
      await untilAvailable(status, { url, key, body, signal, withinMs })
      lines.push(
        `# ${status}: ${shows}`,
        `curl -i ${url} \\`,
        `  -H 'authorization: Bearer ${key}' \\`,
        `  -d '${body}'`,
      )
    } catch (error) {
      if (!(error instanceof Unexpected)) throw error
      log(`Left out the command that shows ${status} (${shows}): ${error.message}`)
    }
  }
  return lines
}

/** A response that the unedited and unused sample would not get. */
class Unexpected extends Error {}

async function mint(
  gateway: string,
  identity: string,
  subscription: string,
  signal: AbortSignal,
): Promise<string> {
  const response = await fetch(`${gateway}/v1/api-keys`, {
    method: 'POST',
    signal,
    headers: {
      authorization: `Bearer ${identity}-token`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ name: 'npm-start', ephemeral: true, subscription }),
  })
  const text = await response.text()
  const key: unknown = response.status === 201 ? JSON.parse(text).key : undefined
  if (typeof key === 'string') return key
  throw new Unexpected(`No key for ${identity} (${response.status}): ${text.slice(0, 300)}`)
}

interface SampleRequest {
  readonly url: string
  readonly key: string
  readonly body: string
  readonly signal: AbortSignal
  readonly withinMs: number
}

/** Retries until the response is as expected, because usage is counted shortly after a response. */
async function untilAvailable(expected: number, sample: SampleRequest): Promise<void> {
  const { url, key, body, signal, withinMs } = sample
  const deadline = Date.now() + withinMs
  const headers = { authorization: `Bearer ${key}` }
  for (;;) {
    const response = await fetch(url, { method: 'POST', headers, body, signal })
    const last = `${response.status} ${(await response.text()).slice(0, 300)}`
    if (response.status === expected) return
    // A limit that is used up stays so.
    if (response.status === 429 || Date.now() > deadline) {
      throw new Unexpected(`the response is ${last}`)
    }
    await delay(pollMs, undefined, { signal })
  }
}

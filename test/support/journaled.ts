import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Test } from 'tap'
import { chatPath, models, subscriptions } from './gateway.ts'
import { idsOf, type Lines, linesOf } from './lines.ts'
import { poll } from './poll.ts'
import { type Replicas, startReplicas } from './replicas.ts'
import { memoryFolder } from './temporary-folder.ts'
import { lasting } from './window-ends.ts'

export interface JournaledSettings {
  /** Processes of the service; 1 by default. */
  readonly count?: number
  readonly users?: readonly string[]
  /** Where the journal's folder is created; a folder in memory by default. */
  readonly parent?: string
  readonly env?: Record<string, string>
}

/** The whole product; each process of the service can be killed. */
export interface Journaled extends Replicas {
  readonly lines: Lines
  /**
   * A response with this many tokens; resolves to its request id. Any status but 200 is an error.
   */
  spend(user: string, tokens: number, wishes?: Wishes): Promise<string>
  /** Tokens counted for this user, read from the headers of a call that costs nothing. */
  used(user: string): Promise<number>
  /** Waits until Envoy's own log has all responses that have ended, so that the next query includes them. */
  flushed(): Promise<void>
}

export interface Wishes {
  /** A streamed response that takes about this long. */
  readonly streamMs?: number
  readonly headers?: Record<string, string>
}

/** By default its users. */
export const [ann, bob] = ['ann', 'bob'].map(lasting) as [string, string]

const limit = 1_000_000_000
const marker = 'the marker'

/** Starts it with these users, each with a key; everything ends with `t`. */
export async function startJournaled(
  t: Test,
  settings: JournaledSettings = {},
): Promise<Journaled> {
  const { count = 1, users = [ann, bob], env } = settings
  const all = [...users, marker]
  const replicas = await startReplicas(t, {
    count,
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: limit })],
    tokens: all.map((user, i) => `token-${i},"${user.replaceAll('"', '""')}",${i},team`),
    env: {
      USAGE_JOURNAL: join(settings.parent ?? memoryFolder(t), 'journal', 'usage.jsonl'),
      ...env,
    },
  })
  const lines = linesOf(replicas.journal)
  const keys = new Map<string, string>()
  for (const [i, user] of all.entries()) keys.set(user, await mint(replicas.url, `token-${i}`))

  async function chat(user: string, sim: object, wishes: Wishes = {}): Promise<Response> {
    const { streamMs, headers } = wishes
    const stream = streamMs !== undefined
    const chunks = stream && { words: 10, chunkDelayMs: Math.ceil(streamMs / 10) }
    const answer = await fetch(replicas.url + chatPath, {
      method: 'POST',
      headers: { authorization: `Bearer ${keys.get(user)}`, ...headers },
      body: JSON.stringify({ model: 'sim', messages: [], stream, sim: { ...sim, ...chunks } }),
    })
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(`${answer.status} ${text}`)
    return answer
  }

  const idOf = ({ headers }: Response): string => headers.get('x-request-id') ?? ''

  return {
    ...replicas,
    lines,
    spend: async (user, tokens, wishes) => idOf(await chat(user, { totalTokens: tokens }, wishes)),
    async used(user) {
      const { headers } = await chat(user, { totalTokens: 0 })
      return limit - Number(headers.get('x-ratelimit-remaining-tokens'))
    },
    async flushed() {
      const headers = { authorization: `Bearer ${keys.get(marker)}` }
      const answer = await fetch(`${replicas.url}/llm/sim/v1/models`, { headers })
      await answer.arrayBuffer()
      const id = idOf(answer)
      await poll(() => idsOf(lines.ofEnvoy()).includes(id), 'Envoy has written its log', 30_000)
    },
  }
}

/** A line in the previous format, as files from before an upgrade have: by default one token of llm/sim, just now. */
export function lineOf(fields: Record<string, unknown>): string {
  return JSON.stringify({
    bytes: 100,
    group: null,
    id: randomUUID(),
    model: 'llm/sim',
    ms: 0,
    reported: { total_tokens: 1 },
    start: String(Date.now()),
    status: 200,
    subscription: 'plenty',
    user: ann,
    ...fields,
  })
}

async function mint(url: string, token: string): Promise<string> {
  const answer = await fetch(`${url}/v1/api-keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'journal', subscription: 'plenty' }),
  })
  if (answer.status !== 201) throw new Error(`no key: ${answer.status} ${await answer.text()}`)
  return ((await answer.json()) as { key: string }).key
}

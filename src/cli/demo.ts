/** `tollgate demo`: keys and traffic for the sample gateway of `tollgate up`, to look at. */

import { isLoopback } from '../core/formats/trustworthy.ts'
import { createApiClient } from './api-client.ts'
import { checkUrl, defaultUrl } from './api-server.ts'
import { type Call, Unreachable, WrongCall } from './command.ts'
import type { demoFlags } from './commands/run.ts'
import { toJson } from './json.ts'
import { printable, renderTable } from './table.ts'
import type { CommandIo } from './terminal.ts'

const maxRequests = 10_000
/** Requests at once. */
const atOnce = 4
const label = { made: 'tollgate-demo' }

interface DemoKey {
  readonly user: string
  readonly name: string
  readonly subscription: string
  /** 30 days by default. */
  readonly expiresIn?: string
}

/** What each key is for. The identities and subscriptions are those of the samples. */
const keys: readonly DemoKey[] = [
  { user: 'alice', name: 'Nightly evaluation', subscription: 'team-a-premium' },
  { user: 'alice', name: 'Laptop', subscription: 'team-a-basic' },
  { user: 'alice', name: 'Try-out', subscription: 'team-a-tiny', expiresIn: '3d' },
  { user: 'carol', name: 'Search ranking', subscription: 'team-a-premium' },
  { user: 'carol', name: 'Notebook', subscription: 'team-a-basic' },
  { user: 'bob', name: 'Support assistant', subscription: 'team-b-only' },
]

/** The models asked for, in turn: mostly what is open, sometimes what is not. */
const models = [
  'sim-small',
  'sim-small',
  'sim-large',
  'sim-small',
  'sim-small',
  'sim-smal',
] as const

/** Runs the command; returns the exit status: 1 if nothing was answered. */
export async function demo(
  { flags }: Call<typeof demoFlags>,
  io: Pick<CommandIo, 'env' | 'out' | 'err'>,
): Promise<number> {
  const requests = readRequests(flags.requests)
  const url = checkUrl(io.env.TOLLGATE_URL?.trim() || defaultUrl, true)
  if (!isLoopback(new URL(url).hostname)) {
    throw new Error(`${url} is not on this machine; a demo is for the gateway of tollgate up.`)
  }
  const made = await makeKeys(url)
  const statuses = new Map<number, number>()
  let next = 0
  async function send(): Promise<void> {
    for (;;) {
      const turn = next++
      if (turn >= requests) return
      const status = await chat(url, made[turn % made.length] as string, turn)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, send))
  const rows = [...statuses].sort(([a], [b]) => a - b)
  const page = `${url}/console`
  if (flags.json) io.out(toJson({ keys: made.length, statuses: Object.fromEntries(rows), page }))
  else
    io.out(
      renderTable(
        ['STATUS', 'REQUESTS'],
        rows.map((row) => row.map(String)),
        64,
      ),
    )
  if (!flags.json) io.out(`\n${made.length} keys, and what they have done: ${page}`)
  return statuses.has(200) ? 0 : 1
}

function readRequests(written = '200'): number {
  const requests = /^\d{1,5}$/.test(written) ? Number(written) : 0
  if (requests >= 1 && requests <= maxRequests) return requests
  throw new WrongCall('--requests is a number from 1 to 10,000.')
}

/** Their secrets. Rejects with a readable error, also if the gateway is not the sample's. */
async function makeKeys(url: string): Promise<readonly string[]> {
  const secrets: string[] = []
  for (const user of new Set(keys.map((each) => each.user))) {
    const ask = createApiClient({ url, token: `${user}-token` })
    const { data } = (await ask('POST', '/v1/api-keys/search', {
      filters: { username: user, status: ['active'], labelsContain: label },
      pagination: { limit: 100 },
    })) as { readonly data: readonly { readonly id: string }[] }
    for (const { id } of data) await ask('DELETE', `/v1/api-keys/${encodeURIComponent(id)}`)
    for (const { user: _, ...each } of keys.filter((each) => each.user === user)) {
      const body = { expiresIn: '30d', ...each, labels: label }
      secrets.push(((await ask('POST', '/v1/api-keys', body)) as { readonly key: string }).key)
    }
  }
  return secrets
}

/** One chat, streamed every other time; its status. */
async function chat(url: string, key: string, turn: number): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    signal: AbortSignal.timeout(30_000),
    body: JSON.stringify({
      model: models[Math.floor(turn / keys.length) % models.length],
      messages: [{ role: 'user', content: `Question ${turn}` }],
      max_tokens: 8 + ((turn * 7) % 57),
      stream: turn % 2 === 1,
    }),
  }).catch((error: unknown) => {
    throw new Unreachable(`${url} cannot be reached (${printable(String(error))}).`)
  })
  await response.arrayBuffer()
  return response.status
}

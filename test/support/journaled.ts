import { randomUUID } from 'node:crypto'
import { appendFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Test } from 'tap'
import { freePorts } from './free-ports.ts'
import { chatPath, models, subscriptions } from './gateway.ts'
import { poll } from './poll.ts'
import { type Replicas, startReplicas } from './replicas.ts'
import { temporaryFolder } from './temporary-folder.ts'

export interface JournaledSettings {
  /** Processes of the service; 1 by default. */
  readonly count?: number
  /** Whether Envoy reports responses by the stream too; true by default. */
  readonly streamed?: boolean
  readonly users?: readonly string[]
  /** Where the journal's folder is created; a temporary folder by default. */
  readonly parent?: string
  readonly env?: Record<string, string>
}

/** The whole product with a usage journal; each process of the service can be killed. */
export interface Journaled extends Replicas {
  /** The file that Envoy writes. */
  readonly path: string
  /**
   * A response with this many tokens; resolves to its request id. Any status but 200 is an error.
   */
  spend(user: string, tokens: number, wishes?: Wishes): Promise<string>
  /** Tokens counted for this user, read from the headers of a call that costs nothing. */
  used(user: string): Promise<number>
  /** Waits until the journal has been read up to its current end, including all ended responses. */
  readUp(): Promise<void>
  /** The files of the journal, oldest first, and the lines of all. */
  files(): readonly string[]
  lines(): readonly string[]
}

export interface Wishes {
  /** A streamed response that takes about this long. */
  readonly streamMs?: number
  readonly headers?: Record<string, string>
}

const limit = 1_000_000_000
const marker = 'the marker'

/** Starts it with these users, each with a key; everything ends with `t`. */
export async function startJournaled(
  t: Test,
  settings: JournaledSettings = {},
): Promise<Journaled> {
  const { count = 1, streamed = true, users = ['ann', 'bob'], env } = settings
  const folder = join(settings.parent ?? temporaryFolder(t), 'journal')
  mkdirSync(folder, { mode: 0o700 })
  const path = join(folder, 'usage.jsonl')
  const [adminPort = 0] = await freePorts(1)
  const all = [...users, marker]
  const replicas = await startReplicas(t, {
    count,
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: limit })],
    tokens: all.map((user, i) => `token-${i},"${user.replaceAll('"', '""')}",${i},team`),
    env: { USAGE_JOURNAL: path, ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}`, ...env },
    envoyAdminPort: adminPort,
    ...(!streamed && { adjustEnvoy: withoutStream }),
  })
  let markerTokens = 1
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
  const used = async (user: string): Promise<number> => {
    const { headers } = await chat(user, { totalTokens: 0 })
    return limit - Number(headers.get('x-ratelimit-remaining-tokens'))
  }
  const files = (): readonly string[] => {
    const found = readdirSync(folder).filter((name) => /^usage\.jsonl(\.\d+)?$/.test(name))
    const rank = (name: string): string => (name === basename(path) ? '~' : name)
    return found.sort((a, b) => (rank(a) < rank(b) ? -1 : 1)).map((name) => join(folder, name))
  }
  const lines = (): readonly string[] =>
    files().flatMap((file) => readFileSync(file, 'utf8').trim().split('\n'))

  return {
    ...replicas,
    path,
    spend: async (user, tokens, wishes) => idOf(await chat(user, { totalTokens: tokens }, wishes)),
    used,
    async readUp() {
      const id = idOf(await chat(marker, { totalTokens: 0 }))
      await poll(
        () => lines().some((line) => line.includes(id)),
        'Envoy has written its lines',
        30_000,
      )
      // More than all earlier markers together: a process that still counts those is not done.
      markerTokens *= 2
      const awaited = (await used(marker)) + markerTokens
      const line = lineOf({ user: marker, reported: { total_tokens: markerTokens } })
      appendFileSync(path, `${line}\n`)
      await poll(async () => (await used(marker)) >= awaited, 'the journal is read', 30_000)
    },
    files,
    lines,
  }
}

/** A line as Envoy writes it: by default one token of llm/sim, just now. */
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
    user: 'ann',
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

/** Removes the access log that reports responses by the stream. */
export function withoutStream(bootstrap: string): string {
  const { static_resources, ...rest } = JSON.parse(bootstrap)
  const connections = static_resources.listeners[0].filter_chains[0].filters[0].typed_config
  connections.access_log = connections.access_log.filter(
    ({ name }: { name: string }) => name !== 'usage',
  )
  return JSON.stringify({ ...rest, static_resources })
}

/** The file in which a process saves its position in the journal at this path. */
export function positionOf(path: string): string {
  return join(dirname(path), `${basename(path)}.position`)
}

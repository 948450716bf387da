/** `tollgate demo`: keys, traffic and two weeks of usage for the sample gateway of `tollgate up`, to look at. */

import { demoHistory } from '../../dev/demo/history.ts'
import { removeDemoUsage, writeDemoUsage } from '../../dev/demo/postgres-usage.ts'
import { withRecordedAddresses } from '../../dev/own-addresses.ts'
import { isLoopback } from '../formats/trustworthy.ts'
import { loadConfig } from '../settings/config.ts'
import type { Pool } from '../store/postgres/postgres.ts'
import { type ApiClient, createApiClient } from './api-client.ts'
import { defaultUrl, urlOf } from './api-target.ts'
import { type Run, Unreachable, WrongCall } from './command.ts'
import type { demoFlags } from './commands/run.ts'
import { embeddedDatabaseUrl, requireRunning, withPool } from './database.ts'
import { formatJson, printable, renderTable } from './output.ts'
import type { CommandIo } from './terminal.ts'

const maxRequests = 10_000
/** Number of concurrent requests. */
const atOnce = 4
const label = { made: 'tollgate-demo' }

interface DemoKey {
  readonly user: string
  readonly name: string
  readonly subscription: string
  /** 30 days by default. */
  readonly expiresIn?: string
}

/** The purpose of each key, with identities and subscriptions of the samples. */
const keys: readonly DemoKey[] = [
  { user: 'alice', name: 'Nightly evaluation', subscription: 'team-a-premium' },
  { user: 'alice', name: 'Laptop', subscription: 'team-a-basic' },
  { user: 'alice', name: 'Try-out', subscription: 'team-a-tiny', expiresIn: '3d' },
  { user: 'carol', name: 'Search ranking', subscription: 'team-a-premium' },
  { user: 'carol', name: 'Notebook', subscription: 'team-a-basic' },
  { user: 'bob', name: 'Support assistant', subscription: 'team-b-only' },
]

const users = [...new Set(keys.map(({ user }) => user))]

/** The requested models, in turn: mostly open ones, sometimes others. */
const models = ['sim-small', 'sim-small', 'sim-large', 'sim-small', 'sim-small', 'sim-smal']

/** Runs the command; returns the exit status: 1 if no request got a response. */
export const demo: Run<typeof demoFlags> = async ({ flags }, io) => {
  if (flags.remove && flags.requests !== undefined) {
    throw new WrongCall('--requests has no meaning with --remove.')
  }
  const requests = readRequests(flags.requests)
  return await withDemo(io.env, async (place) => {
    return flags.remove
      ? await remove(place, flags.json, io)
      : await make(place, requests, flags.json, io)
  })
}

async function make(
  place: DemoPlace,
  requests: number,
  asJson: boolean,
  io: CommandIo,
): Promise<number> {
  const { url } = place
  // Before anything is written: it fails if the gateway does not have the sample's identities.
  const made = await makeKeys(url)
  const sums = await writeHistory(place, io)
  const statuses = await sendAll(url, made, requests)
  const rows = [...statuses].sort(([a], [b]) => a - b)
  const page = `${url}/console`
  const keys = made.length
  if (asJson) io.out(formatJson({ keys, sums, statuses: Object.fromEntries(rows), page }))
  else {
    const cells = rows.map((row) => row.map(String))
    io.out(renderTable(['STATUS', 'REQUESTS'], cells, 64))
    io.out(`\n${keys} keys and their usage: ${page}`)
    if (sums > 0) {
      io.out(
        'Two weeks of usage of users demo-*: admin sees all of it, the identity token demo-coding-token its own.',
      )
    }
  }
  return statuses.has(200) ? 0 : 1
}

/** Number of usage sums written: 0 unless npm start has created the database. */
async function writeHistory({ sql, reason }: DemoPlace, { err }: CommandIo): Promise<number> {
  if (sql === undefined) {
    err(`No usage history was written: ${reason}.`)
    return 0
  }
  const history = demoHistory(Date.now())
  await writeDemoUsage(sql, history, (days) => {
    if (days % 7 === 0) err(`${days} of ${history.size} days of usage are written.`)
  })
  return [...history.values()].reduce((sum, rows) => sum + rows.length, 0)
}

/** Removes the history and the keys; the keys' real usage is not removed. */
async function remove(place: DemoPlace, asJson: boolean, { out, err }: CommandIo): Promise<number> {
  const { url, sql, reason } = place
  if (sql === undefined) err(`No usage was removed: ${reason}.`)
  const sums = sql === undefined ? 0 : await removeDemoUsage(sql)
  let revoked = 0
  for (const user of users) revoked += await revokeKeys(clientOf(url, user), user)
  const said = `Removed ${sums.toLocaleString('en')} sums of usage, and revoked ${revoked} keys.`
  out(asJson ? formatJson({ sums, keys: revoked }) : said)
  return 0
}

/** Sends this many requests, some concurrently; returns their statuses. */
async function sendAll(
  url: string,
  secrets: readonly string[],
  requests: number,
): Promise<ReadonlyMap<number, number>> {
  const statuses = new Map<number, number>()
  const turns = Array(requests).keys()
  async function send(): Promise<void> {
    for (const turn of turns) {
      const status = await chat(url, secrets[turn % secrets.length] as string, turn)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, send))
  return statuses
}

function readRequests(raw = '200'): number {
  const requests = /^\d{1,5}$/.test(raw) ? Number(raw) : 0
  if (requests >= 1 && requests <= maxRequests) return requests
  throw new WrongCall('--requests must be a number from 1 to 10,000.')
}

/** Creates the keys; returns their secrets. Rejects with a readable error, also if the gateway is not the sample's. */
async function makeKeys(url: string): Promise<readonly string[]> {
  const secrets: string[] = []
  for (const user of users) {
    const ask = clientOf(url, user)
    await revokeKeys(ask, user)
    for (const { user: _, ...each } of keys.filter((each) => each.user === user)) {
      const body = { expiresIn: '30d', ...each, labels: label }
      secrets.push(((await ask('POST', '/v1/api-keys', body)) as { readonly key: string }).key)
    }
  }
  return secrets
}

/** Revokes the keys of a demo; returns their number. */
async function revokeKeys(ask: ApiClient, user: string): Promise<number> {
  const { data } = (await ask('POST', '/v1/api-keys/search', {
    filters: { username: user, status: ['active'], labelsContain: label },
    pagination: { limit: 100 },
  })) as { readonly data: readonly { readonly id: string }[] }
  for (const { id } of data) await ask('DELETE', `/v1/api-keys/${encodeURIComponent(id)}`)
  return data.length
}

/** As a user of the sample, whose tokens are public. */
function clientOf(url: string, user: string): ApiClient {
  return createApiClient({ url, token: `${user}-token` })
}

/** Sends one chat, streamed every other time; returns its status. */
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

/** The sample gateway, and its database if `tollgate up` has created it. */
interface DemoPlace {
  /** Its address. */
  readonly url: string
  readonly sql?: Pool
  /** Why there is no such database: a clause. */
  readonly reason?: string
}

/**
 * Uses the gateway at TOLLGATE_URL, else the gateway that `tollgate up` runs on DATA_DIR, and the embedded Postgres
 * there, which has a random password: no other database, and only if it belongs to that gateway. If the gateway is on
 * another machine or the database does not run, rejects with a readable error before it changes anything.
 */
async function withDemo<Result>(
  env: NodeJS.ProcessEnv,
  work: (place: DemoPlace) => Promise<Result>,
): Promise<Result> {
  const named = env.TOLLGATE_URL?.trim() ? urlOf(env) : undefined
  if (named !== undefined && !isLoopback(new URL(named).hostname)) {
    throw new Error(`${named} is not on this machine; a demo is for the gateway of tollgate up.`)
  }
  const { dataDir, databaseUrl } = loadConfig(env)
  const recorded = withRecordedAddresses({ DATA_DIR: dataDir }).GATEWAY_ADDRESS
  const url = named ?? (recorded === undefined ? defaultUrl : `http://${recorded}`)
  const database = embeddedDatabaseUrl(dataDir)
  if (databaseUrl !== undefined) {
    return await work({ url, reason: 'DATABASE_URL names another database than npm start uses' })
  }
  if (database === undefined || recorded === undefined) {
    const reason = `npm start has made no database in ${dataDir} (set DATA_DIR to its folder)`
    return await work({ url, reason })
  }
  if (!recorded.endsWith(`:${new URL(url).port || 80}`)) {
    const reason = `the database in ${dataDir} belongs to http://${recorded} (set DATA_DIR to the folder of npm start at ${url})`
    return await work({ url, reason })
  }
  const options = { url: database, connections: 1, applicationName: 'tollgate demo' }
  return await withPool(options, async (sql) => {
    await requireRunning(sql, dataDir)
    return await work({ url, sql })
  })
}

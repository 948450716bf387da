/**
 * Withdrawals of grants, each under load: after the promised moment, no request that begins may be allowed by an
 * earlier decision.
 */

import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { accessPolicy, modelRef, subscription, type WrittenDocument } from './documents.ts'
import { chatPath } from './gateway.ts'
import { linesOf } from './lines.ts'
import { poll } from './poll.ts'
import { startReplicas } from './replicas.ts'
import { type LoadRequest, startCallers, tally } from './steady-load.ts'

/** The result of one round. */
export interface Withdrawn {
  /** Requests that began afterwards, and how many of them got another answer than the new state gives. */
  readonly later: number
  readonly wrong: Readonly<Record<number, number>>
  /** Requests that were allowed before, and how many of them the table decided. */
  readonly allowed: number
  readonly hits: number
}

const team = { groups: ['team'] }
const limits = [[1_000_000_000, '1h']] as const

/** How the resources may vary. */
interface Written {
  readonly open?: boolean
  readonly pays?: boolean
  readonly limit?: number
  readonly names?: readonly string[]
}

function documentsOf(backendUrl: string, version: string, written: Written = {}) {
  const { open = true, pays = true, limit = 1_000_000_000, names = ['nick'] } = written
  return [
    modelRef('sim', { backendUrl, modelIds: names }),
    modelRef('other', { backendUrl }),
    accessPolicy('open', [...(open ? ['llm/sim'] : []), 'llm/other'], team),
    subscription('plenty', team, {
      ...(pays && { 'llm/sim': [[limit, '1h']] }),
      'llm/other': limits,
    }),
    subscription(version, { users: ['nobody'] }, { 'llm/sim': limits }),
  ]
}

interface MintedKey {
  readonly key: string
  readonly id: string
  readonly expiresAt: string
}

/** A way to withdraw a key's grant; the status of its requests then. */
interface Way {
  readonly status: number
  /** Number of requests that the new state may allow. */
  readonly allowed?: number
  readonly wishes?: object
  readonly request?: Partial<LoadRequest>
  /** How long each caller waits between two requests, until it is near. */
  readonly pauseMs?: number
  /** Calls `near` a moment before, if it has a pause. Resolves at the moment for which it is promised; false: it is not promised. */
  end(minted: MintedKey, near: () => void): Promise<boolean>
}

/** Starts two processes behind an Envoy of two threads. */
export async function startWithdrawals(t: Test, env: Record<string, string> = {}) {
  const world = await startReplicas(t, {
    count: 2,
    env,
    resources: (backendUrl) => documentsOf(backendUrl, 'version-0'),
    tokens: ['token-ann,ann,1,team'],
  })
  const { all, url, model, folder, journal } = world
  const lines = linesOf(journal)
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  const hitsSoFar = () => lines.ended().filter(({ by }) => by === 'table').length
  let version = 0

  async function manage(method: string, path: string, body?: object) {
    const answer = await fetch(`${url}/v1/api-keys${path}`, {
      ...{ method, headers },
      ...(body && { body: JSON.stringify(body) }),
    })
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as MintedKey & { propagation?: { state: string } }
  }
  const isConfirmed = async (method: string, path: string, body?: object) =>
    (await manage(method, path, body)).propagation?.state === 'confirmed'

  async function write(written?: Written): Promise<true> {
    version += 1
    const name = `version-${version}`
    const documents: readonly WrittenDocument[] = documentsOf(model.url, name, written)
    const file = join(folder, 'resources', 'all.yaml')
    writeFileSync(
      join(folder, 'fresh'),
      documents.map((each) => JSON.stringify(each)).join('\n---\n'),
    )
    renameSync(join(folder, 'fresh'), file)
    for (const { internal } of all) {
      await poll(async () => {
        const answer = await fetch(`http://${internal}/internal/v1/resources`)
        return (await answer.text()).includes(`"${name}"`)
      }, 'all list it as in force')
    }
    return true
  }

  const ways: Readonly<Record<string, Way>> = {
    revoked: { status: 401, end: ({ id }) => isConfirmed('DELETE', `/${id}`) },
    'all revoked': { status: 401, end: () => isConfirmed('POST', '/bulk-revoke', {}) },
    rotated: { status: 401, end: ({ id }) => isConfirmed('POST', `/${id}/rotate`, {}) },
    'capped to another model': {
      status: 403,
      end: ({ id }) =>
        isConfirmed('PATCH', `/${id}`, { models: [{ namespace: 'llm', name: 'other' }] }),
    },
    'capped to other addresses': {
      status: 403,
      end: ({ id }) => isConfirmed('PATCH', `/${id}`, { allowedAddresses: ['192.0.2.0/24'] }),
    },
    // Its counter begins now, and nothing is refused before a first answer.
    'capped to few tokens': {
      ...{ status: 429, allowed: 16 },
      end: ({ id }) =>
        isConfirmed('PATCH', `/${id}`, { tokenRateLimits: [{ limit: 1, window: '1h' }] }),
    },
    closed: { status: 403, end: () => write({ open: false }) },
    'not paid for': { status: 403, end: () => write({ pays: false }) },
    'limited to few tokens': { status: 429, end: () => write({ limit: 1 }) },
    renamed: {
      status: 403,
      request: { url: `${url}/v1/chat/completions`, body: '{"model":"nick","messages":[]}' },
      end: () => write({ names: ['nock'] }),
    },
    expired: {
      status: 401,
      wishes: { expiresIn: '3s' },
      // Its seconds would be most of the load of all ways.
      pauseMs: 50,
      async end({ expiresAt }, near) {
        // Shown without its fraction of a second.
        const end = Date.parse(expiresAt) + 1_000
        await delay(end - 1_100 - Date.now())
        near()
        await delay(end - Date.now())
        while (Date.now() <= end) await delay(1)
        return true
      },
    },
  }

  async function round(name: string, forMs: number): Promise<Withdrawn | undefined> {
    const way = ways[name]
    if (way === undefined) throw new Error(`no way is called ${name}`)
    const hitsBefore = hitsSoFar()
    const minted = await manage('POST', '', { name, subscription: 'plenty', ...way.wishes })
    const request: LoadRequest = {
      url: url + chatPath,
      body: '{"model":"sim","messages":[]}',
      ...way.request,
      headers: { ...headers, authorization: `Bearer ${minted.key}` },
    }
    let { pauseMs = 0 } = way
    const load = startCallers(
      8,
      () => request,
      () => pauseMs,
    )
    await poll(() => load.shots.filter(({ status }) => status === 200).length >= 60, 'it is in use')
    const isPromised = await way.end(minted, () => {
      pauseMs = 0
    })
    const endedAt = performance.now()
    await delay(forMs)
    const shots = await load.stop()
    const hits = hitsSoFar() - hitsBefore
    if (/^(closed|not paid|limited|renamed)/.test(name)) await write()
    if (!isPromised) return undefined
    const later = shots.filter(({ sentAt }) => sentAt > endedAt)
    const { [way.status]: _, ...wrong } = tally(later)
    const { 200: passed = 0 } = wrong
    if (passed <= (way.allowed ?? 0)) delete wrong[200]
    const allowed = shots.filter(({ status }) => status === 200).length - passed
    return { later: later.length, wrong, allowed, hits }
  }

  const first = await manage('POST', '', { name: 'first', subscription: 'plenty' })
  await poll(async () => {
    const authorization = `Bearer ${first.key}`
    const asked = {
      method: 'POST',
      headers: { ...headers, authorization },
      body: '{"messages":[]}',
    }
    await (await fetch(url + chatPath, asked)).text()
    return hitsSoFar() > 0
  }, 'the table is in force')
  return { ...world, ways: Object.keys(ways), round }
}

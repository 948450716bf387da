/** Many concurrent calls, against room for a few, over several processes that share a Redis. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { subscription } from './documents.ts'
import { models } from './gateway.ts'
import { poll } from './poll.ts'
import { type Replicas, startReplicas } from './replicas.ts'
import { type RunningValkey, startValkey } from './valkey.ts'
import { lasting } from './window-ends.ts'

/** Each answer has as many tokens as its request may use. */
const answerTokens = 300
const limit = 12_000
const overshootPercent = 25

/** Maximum usage of the calls of one window. */
export const promised = limit * (1 + overshootPercent / 100)

export interface BurstWorld extends Replicas {
  readonly valkey: RunningValkey
  /** A new user's key. */
  mint(subscription: 'reserves' | 'counts'): Promise<string>
  burst(wishes: BurstOptions): Promise<Burst>
  /** When each hold's lease ends, in milliseconds since the epoch. */
  leaseEnds(): Promise<readonly number[]>
}

export interface BurstOptions {
  readonly key: string
  readonly calls: number
  /** How long the model takes for each answer. */
  readonly takesMs: number
  /** How long refused calls are repeated. */
  readonly triesForMs?: number
  /** After what time at least, and at most after twice as long; by default after half a second. */
  readonly triesAfterMs?: number
  /** Called once all calls are sent. */
  readonly meanwhile?: () => Promise<void>
}

export interface Burst {
  readonly allowed: number
  /** The statuses of all calls, including repeated ones. */
  readonly byStatus: Readonly<Record<number, number>>
  /** Tokens by the model server's tally, and by ours. */
  readonly produced: number
  readonly charged: number
}

/** Starts the processes on free ports; everything ends with `t`. */
export async function startBurstWorld(
  t: Test,
  count: number,
  env: Record<string, string> = {},
): Promise<BurstWorld> {
  const valkey = await startValkey(t)
  const limits = { 'llm/sim': [[limit, '1h']] } as const
  const owner = { groups: ['team'] }
  const replicas = await startReplicas(t, {
    count,
    resources: (backendUrl) => [
      ...models(backendUrl),
      subscription('reserves', owner, limits, { admission: { mode: 'reserve', overshootPercent } }),
      subscription('counts', owner, limits),
    ],
    tokens: Array.from({ length: 30 }, (_, i) => `token-${i},${lasting(`user-${i}`)},${i},team`),
    env: { REDIS_URL: valkey.url, ...env },
    adjustEnvoy: (bootstrap) =>
      bootstrap.replace(/("access_log_flush_interval":\s*)"10s"/, '$1"1s"'),
  })
  const { url, model } = replicas
  const call = (path: string, credential: string, body?: object) =>
    fetch(url + path, {
      method: body ? 'POST' : 'GET',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${credential}` },
      ...(body && { body: JSON.stringify(body) }),
    })
  let users = 0

  async function used(key: string): Promise<number> {
    const answer = await call('/v1/limits', key)
    const { data } = (await answer.json()) as { data: readonly { used: number }[] }
    return data[0]?.used ?? Number.NaN
  }

  return {
    ...replicas,
    valkey,
    async mint(name) {
      const minted = await call('/v1/api-keys', `token-${users++}`, { name, subscription: name })
      return ((await minted.json()) as { key: string }).key
    },
    async leaseEnds() {
      const ends: number[] = []
      for (const name of await valkey.client.keys('*leases*')) {
        const members = await valkey.client.zrange(name, '0', '-1', 'WITHSCORES')
        ends.push(...members.filter((_, i) => i % 2 === 1).map(Number))
      }
      return ends
    },
    async burst({ key, calls, takesMs, triesForMs = 0, triesAfterMs = 500, meanwhile }) {
      const byStatus: Record<number, number> = {}
      const [before, chargedBefore] = [await model.tally(), await used(key)]
      const giveUpAt = performance.now() + triesForMs
      async function client(): Promise<void> {
        do {
          const answer = await call('/v1/chat/completions', key, {
            ...{
              model: 'sim',
              max_tokens: answerTokens,
              messages: [{ role: 'user', content: 'Hi' }],
            },
            sim: { words: answerTokens, delayMs: takesMs },
          })
          byStatus[answer.status] = (byStatus[answer.status] ?? 0) + 1
          await answer.text()
          if (answer.status === 200) return
          await delay(triesAfterMs * (1 + Math.random()))
        } while (performance.now() < giveUpAt)
      }
      await Promise.all([...Array.from({ length: calls }, client), meanwhile?.()])
      const produced = (await model.tally()).totalTokens - before.totalTokens
      const charged = async () => (await used(key)) - chargedBefore
      await poll(async () => (await charged()) === produced, 'all is charged', 30_000).catch(
        () => {},
      )
      return { allowed: byStatus[200] ?? 0, byStatus, produced, charged: await charged() }
    },
  }
}

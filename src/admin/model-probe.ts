/**
 * Asks a model's endpoint which models it serves, with the caller's own credential: whether they
 * may use it is for whoever guards the endpoint to say (contract, 3.7).
 *
 * Certificates are verified. Node reads further authorities from NODE_EXTRA_CA_CERTS.
 */

import { hash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Caller } from '../core/caller.ts'
import { readServedModels, type ServedModel } from '../core/model-list.ts'
import type { Snapshot } from '../core/snapshot.ts'

export interface ProbeRequest {
  /** Base URL, as a resource names it; never anything that a client wrote. */
  readonly endpoint: string
  /** The caller's `Authorization`, passed on unchanged. */
  readonly authorization: string
  readonly caller: Caller
  /** Bare name of the subscription on whose behalf is asked. */
  readonly subscription: string
  readonly snapshot: Snapshot
}

/**
 * What the server lists; `unlisted` when it knows no list (405); `closed` when the caller may not,
 * or when there was no answer in time. Never rejects.
 */
export type ProbeOutcome = readonly ServedModel[] | 'unlisted' | 'closed'

export type ProbeModel = (request: ProbeRequest, signal: AbortSignal) => Promise<ProbeOutcome>

const largestAnswer = 4 * 1_048_576
const attempts = 4
const firstDelayMs = 100
const jitter = 0.1
/** How long a positive answer is remembered, and for how many models all together. */
const cacheTtlMs = 5_000
const cachedModels = 100_000

/**
 * Probes that ask one thing for one caller at one time are one probe. It ends with the signal of
 * the first of them, so that an endpoint which leads back to ourselves ends as well.
 */
export function createProbeModel(options: { cacheTtlMs?: number } = {}): ProbeModel {
  const known = new LRUCache<string, Exclude<ProbeOutcome, 'closed'>>({
    maxSize: cachedModels,
    sizeCalculation: (outcome) => 1 + (outcome === 'unlisted' ? 0 : outcome.length),
    ttl: options.cacheTtlMs ?? cacheTtlMs,
  })
  const running = new Map<string, Promise<ProbeOutcome>>()
  const generations = new WeakMap<Snapshot, number>()
  let latest = 0

  /** Everything that an answer depends on; hashed, since it holds the credential. */
  function keyOf(request: ProbeRequest): string {
    const { snapshot, authorization, caller, subscription, endpoint } = request
    let generation = generations.get(snapshot)
    if (generation === undefined) {
      latest += 1
      generation = latest
      generations.set(snapshot, generation)
    }
    const { user, groups } = caller
    const all = [generation, authorization, user, groups, subscription, endpoint]
    return hash('sha256', JSON.stringify(all), 'base64')
  }

  async function run(key: string, request: ProbeRequest, signal: AbortSignal) {
    try {
      const outcome = await askPatiently(request, signal)
      if (outcome !== 'closed') known.set(key, outcome)
      return outcome
    } finally {
      running.delete(key)
    }
  }

  return async function probeModel(request, signal) {
    const key = keyOf(request)
    const outcome = known.get(key)
    if (outcome !== undefined) return outcome
    const probe = running.get(key) ?? run(key, request, signal)
    running.set(key, probe)
    return probe
  }
}

/** Up to four attempts, each pause twice the one before. */
async function askPatiently(request: ProbeRequest, signal: AbortSignal): Promise<ProbeOutcome> {
  let pauseMs = firstDelayMs
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await ask(request, signal).catch(() => undefined)
    if (outcome !== undefined) return outcome
    if (attempt === attempts || signal.aborted) return 'closed'
    const spreadMs = pauseMs * (1 + jitter * (2 * Math.random() - 1))
    await delay(spreadMs, undefined, { signal }).catch(() => {})
    pauseMs *= 2
  }
}

/** undefined: worth another attempt. Rejects when the connection fails, which is so as well. */
async function ask(request: ProbeRequest, signal: AbortSignal): Promise<ProbeOutcome | undefined> {
  const response = await fetch(`${request.endpoint}/v1/models`, {
    headers: {
      accept: 'application/json',
      authorization: request.authorization,
      'x-maas-subscription': request.subscription,
    },
    // The credential goes to the hosts that resources name, and not where these would send it.
    redirect: 'manual',
    signal,
  })
  const { status } = response
  if (status >= 200 && status < 300) return readAnswer(response)
  await response.body?.cancel()
  if (status === 405) return 'unlisted'
  return status === 401 || status === 403 || status === 404 ? 'closed' : undefined
}

/** What is no list, or too much of one, opens nothing; asking again would not change it. */
async function readAnswer(response: Response): Promise<ProbeOutcome> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    // Leaving the loop cancels the rest.
    if (size > largestAnswer) return 'closed'
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString()
  try {
    return readServedModels(JSON.parse(text))
  } catch {
    return 'closed'
  }
}

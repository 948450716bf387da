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
import { readBody } from '../core/read-body.ts'
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
 * What the server lists. `unlisted`: it knows no list (405). `missing`: it does not know the path
 * (404), which is the same of a server of fixed models. `closed`: the caller may not, or there was no
 * answer in time.
 */
export type ProbeOutcome = readonly ServedModel[] | 'unlisted' | 'missing' | 'closed'

/** Never rejects, and takes no longer than its limit. */
export type ProbeModel = (request: ProbeRequest) => Promise<ProbeOutcome>

export interface ProbeOptions {
  /** What one probe may take with all its attempts, in milliseconds; 2 seconds when absent. */
  readonly limitMs?: number
  /** How long an answer is remembered, in milliseconds; 5 seconds when absent. */
  readonly cacheTtlMs?: number
  /** Milliseconds that never go back; `performance.now` when absent. */
  readonly monotonic?: () => number
}

type Answer = Exclude<ProbeOutcome, 'closed'>

const largestAnswer = 4 * 1_048_576
const attempts = 4
const firstDelayMs = 100
const jitter = 0.1
/** For how many models answers are remembered, all together. */
const cachedModels = 100_000
/** A server that has failed is left out for so long, and asked again behind the caller's back. */
const failureMs = 30_000
const askAgainMs = 5_000
const rememberedFailures = 10_000

/** Probes that ask one thing for one caller at one time are one probe. */
export function createProbeModel(options: ProbeOptions = {}): ProbeModel {
  const { limitMs = 2_000, cacheTtlMs = 5_000, monotonic = () => performance.now() } = options
  /** By all that an answer depends on; refusals and failures are not kept. */
  const answers = new LRUCache<string, Answer, ProbeRequest>({
    maxSize: cachedModels,
    sizeCalculation: (answer) => 1 + (typeof answer === 'string' ? 0 : answer.length),
    ttl: cacheTtlMs,
    perf: { now: monotonic },
    fetchMethod: (_key, _stale, { context }) => run(context),
  })
  /** When servers that failed were asked last, by endpoint: no answer at all is nobody's own. */
  const failures = new LRUCache<string, number>({
    max: rememberedFailures,
    ttl: failureMs,
    perf: { now: monotonic },
  })
  const generations = new WeakMap<Snapshot, number>()
  let latest = 0

  /** Hashed, since it holds the credential. */
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

  async function run(request: ProbeRequest): Promise<Answer | undefined> {
    const outcome = await askPatiently(request, AbortSignal.timeout(limitMs))
    if (outcome === undefined) failures.set(request.endpoint, monotonic())
    else failures.delete(request.endpoint)
    return outcome === 'closed' ? undefined : outcome
  }

  return async function probeModel(request) {
    const key = keyOf(request)
    const askedAt = failures.get(request.endpoint)
    if (askedAt === undefined) return (await answers.fetch(key, { context: request })) ?? 'closed'
    if (monotonic() - askedAt >= askAgainMs) {
      failures.set(request.endpoint, monotonic())
      void answers.fetch(key, { context: request })
    }
    return answers.get(key) ?? 'closed'
  }
}

/** Up to four attempts, each pause twice the one before; undefined when none was answered. */
async function askPatiently(
  request: ProbeRequest,
  signal: AbortSignal,
): Promise<ProbeOutcome | undefined> {
  let pauseMs = firstDelayMs
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await ask(request, signal).catch(() => undefined)
    if (outcome !== undefined || attempt === attempts || signal.aborted) return outcome
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
  if (status === 404) return 'missing'
  return status === 401 || status === 403 ? 'closed' : undefined
}

/** What is no list, or too much of one, opens nothing; asking again would not change it. */
async function readAnswer({ body }: Response): Promise<ProbeOutcome> {
  const text = body === null ? '' : await readBody(body, largestAnswer)
  try {
    return text === undefined ? 'closed' : readServedModels(JSON.parse(text))
  } catch {
    return 'closed'
  }
}

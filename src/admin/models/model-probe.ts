/**
 * Requests the list of a model's server through our gateway with the caller's own credential: the
 * gateway decides whether the caller may use the model (contract, 3.7).
 */

import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { listingHeader } from '../../identity/authenticate.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { readServedModels, type ServedModel } from '../../models/rules/model-list.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { readResponseBody } from '../../runtime/http-request.ts'
import { restAfter } from '../../runtime/loop.ts'
import { createSingleFlight } from '../../runtime/single-flight.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { GatewayClient } from './gateway-client.ts'

export interface ProbeRequest {
  /** `<namespace>/<name>` of the ModelRef. */
  readonly model: string
  /** The caller's `Authorization`, forwarded unchanged. */
  readonly authorization: string
  /** The address that the caller's key is used from, if it is bound to addresses. */
  readonly address: string | undefined
  readonly caller: Caller
  /** Bare name of the subscription that the request is made for. */
  readonly subscription: string
  readonly snapshot: Snapshot
}

/**
 * The server's list. `unlisted`: it has no list (405). `missing`: it does not serve the path (404),
 * or its response is not a list; either means that its models are fixed. `closed`: the caller may not use it. `silent`:
 * it did not respond in time, or failed.
 */
type ProbeOutcome = readonly ServedModel[] | 'unlisted' | 'missing' | 'closed' | 'silent'

/** Never rejects, and takes no longer than its limit. */
export type ProbeModel = (request: ProbeRequest) => Promise<ProbeOutcome>

type ReadWithin = <Result>(
  response: IncomingMessage,
  read: () => Promise<Result>,
) => Promise<Result>

export interface ProbeOptions {
  readonly askGateway: GatewayClient
  /** Makes the header with a client's address, for a request with this `authorization`. */
  readonly seal: (address: string, authorization: string) => string
  /** Runs `read`, which reads a list, and may break the response off to bound memory: it is asked for again then. */
  readonly readWithin?: ReadWithin
  /** Called with the reason when the gateway itself could not be reached. */
  readonly onUnreachable?: (error: unknown) => void
  /** The time limit of a probe with all its attempts, in milliseconds; 2 seconds by default. */
  readonly limitMs?: number
  /** How long a response is cached, in milliseconds; 5 seconds by default. */
  readonly cacheTtlMs?: number
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
}

type Responded = Exclude<ProbeOutcome, 'closed' | 'silent'>

const maxResponseBytes = 4 * 1_048_576
const attempts = 4
const backoff = { firstMs: 100, maxMs: 400, jitter: 0.1 }
/** Maximum number of models whose responses are cached, over all entries. */
const cachedModels = 100_000
/** A server that has failed is skipped for this long, and queried again in the background. */
const failureMs = 30_000
const askAgainMs = 5_000
const rememberedFailures = 10_000

/** Identical concurrent probes of a caller share one request. */
export function createProbeModel(options: ProbeOptions): ProbeModel {
  const { limitMs = 2_000, cacheTtlMs = 5_000, monotonic = () => performance.now() } = options
  const { askGateway, seal, onUnreachable = () => {} } = options
  const { readWithin = (_, read) => read() } = options
  /** Keyed by all inputs of a response; refusals and failures are not cached. */
  const outcomes = new LRUCache<string, Responded>({
    maxSize: cachedModels,
    sizeCalculation: (outcome) => 1 + (typeof outcome === 'string' ? 0 : outcome.length),
    ttl: cacheTtlMs,
    perf: { now: monotonic },
  })
  /** When failed servers were last queried, by model: a failure does not depend on the caller. */
  const failures = new LRUCache<string, number>({
    max: rememberedFailures,
    ttl: failureMs,
    perf: { now: monotonic },
  })
  const generations = new WeakMap<Snapshot, number>()
  let latest = 0

  /** Hashed, because it contains the credential. */
  function keyOf(request: ProbeRequest): string {
    const { snapshot, authorization, address, caller, subscription, model } = request
    let generation = generations.get(snapshot)
    if (generation === undefined) {
      latest += 1
      generation = latest
      generations.set(snapshot, generation)
    }
    const { user, groups } = caller
    const all = [generation, authorization, address, user, groups, subscription, model]
    return hash('sha256', JSON.stringify(all), 'base64')
  }

  // The cache's own `fetch` rejects when it evicts an entry that is not there yet.
  const askOnce = createSingleFlight(async (key: string, request: ProbeRequest) => {
    const outcome = await askWithRetries(request, AbortSignal.timeout(limitMs))
    if (outcome === undefined) {
      failures.set(request.model, monotonic())
      return 'silent'
    }
    failures.delete(request.model)
    if (outcome !== 'closed') outcomes.set(key, outcome)
    return outcome
  })

  /** Up to four attempts with doubling pauses; undefined if there was no response. */
  async function askWithRetries(
    request: ProbeRequest,
    signal: AbortSignal,
  ): Promise<Responded | 'closed' | undefined> {
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await ask(request, signal).catch(() => undefined)
      if (outcome !== undefined || attempt === attempts || signal.aborted) return outcome
      await delay(restAfter(attempt, backoff), undefined, { signal }).catch(() => {})
    }
  }

  /** Returns undefined if another attempt makes sense, as it does after a connection failure, which rejects. */
  async function ask(
    { model, authorization, address, subscription }: ProbeRequest,
    signal: AbortSignal,
  ): Promise<Responded | 'closed' | undefined> {
    const headers = {
      accept: 'application/json',
      authorization,
      'x-maas-subscription': subscription,
      ...(address !== undefined && { [listingHeader]: seal(address, authorization) }),
    }
    const response = await askGateway(`/${model}/v1/models`, headers, signal).catch((error) => {
      if (!signal.aborted) onUnreachable(error)
      throw error
    })
    const { statusCode = 0 } = response
    if (statusCode >= 200 && statusCode < 300)
      return readWithin(response, () => readResult(response))
    response.destroy()
    if (statusCode === 405) return 'unlisted'
    if (statusCode === 404) return 'missing'
    return statusCode === 401 || statusCode === 403 ? 'closed' : undefined
  }

  return async function probeModel(request) {
    const key = keyOf(request)
    const askedAt = failures.get(request.model)
    const known = outcomes.get(key)
    if (askedAt === undefined) return known ?? askOnce(key, request)
    if (monotonic() - askedAt >= askAgainMs) {
      failures.set(request.model, monotonic())
      void askOnce(key, request)
    }
    return known ?? 'silent'
  }
}

/** A response that is no list, or too long, is as none, and a retry would not change it. */
async function readResult(response: IncomingMessage): Promise<Responded> {
  const text = await readResponseBody(response, maxResponseBytes)
  try {
    return text === undefined ? 'missing' : await inSlices(readServedModels(text))
  } catch {
    return 'missing'
  }
}

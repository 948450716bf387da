/**
 * The service's instruments. Counts per request are plain numbers, which are converted to
 * OpenTelemetry's data and Prometheus' text only on demand.
 */

import type { MetricData } from '@opentelemetry/sdk-metrics'
import type { Decision } from '../decide/decision.ts'
import type { ErrorCode } from '../formats/errors.ts'
import { scriptMisses } from '../table/rules/miss-rules.ts'
import { chargeParts, weightedTokens } from '../usage/rules/amounts.ts'
import type { RequestOutcome } from '../usage/rules/model-failure.ts'
import type { Usage } from '../usage/rules/usage.ts'
import { createApiMetrics } from './api.ts'
import { createDurations } from './durations.ts'
import { createExposition } from './exposition.ts'
import type { IdentityFigures } from './identity-counts.ts'
import { createLimitadorMetrics, type LimitadorMetricsOptions } from './limitador-metrics.ts'
import { counterData, gaugeData, type Point, soleHistogram } from './metric-data.ts'
import { createModelMetrics } from './models.ts'
import { watchProcess } from './process.ts'
import type { Sources } from './readings.ts'

export interface TelemetryOptions {
  readonly sources: Sources
  /** Histograms that parts maintain themselves. */
  readonly histograms: () => readonly MetricData[]
  /** How much of each shared limit is used. Never rejects. */
  readonly limitRatios: () => Promise<readonly Point[]>
  /** Results of identity tokens. */
  readonly proofs: IdentityFigures['proofs']
  /** The program's version. */
  readonly version: string
  readonly usage: LimitadorMetricsOptions
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
}

/** A function from bytes to bytes, as at the gateway's edge; it may use the call's `traceparent`. */
type Check = (
  bytes: Buffer,
  traceparent?: string,
  call?: { whenReset(undo: () => void): void },
) => Buffer | Promise<Buffer>

export type Telemetry = ReturnType<typeof createTelemetry>

type DecisionLabel = 'allowed' | ErrorCode

/** A series unused for one to two of these may be removed. */
const generationMs = 3_600_000
/** Present from the start, so that the first increment is visible as a change. */
const initialDecisions: readonly DecisionLabel[] = [
  'allowed',
  'credential_invalid',
  'model_not_allowed',
  'subscription_not_allowed',
  'token_limit_exceeded',
  'store_unavailable',
  'store_slow',
  'store_locked',
]

/** Instruments that read these parts until they are stopped. */
export function createTelemetry(options: TelemetryOptions) {
  const { sources, version } = options
  const monotonic = options.monotonic ?? (() => performance.now())
  const decisions = new Map<string, number>(initialDecisions.map((each) => [each, 0]))
  const misses = new Map<string, number>(scriptMisses.map((each) => [each, 0]))
  let hits = 0
  const authorized = createLimitadorMetrics(options.usage)
  const models = createModelMetrics()
  const api = createApiMetrics()
  const durations = createDurations()
  const watched = watchProcess(version)
  let agedAt = monotonic()
  const exposition = createExposition(
    {
      tollgate_checks: () => decisions,
      tollgate_table_hits: () => hits,
      tollgate_table_misses: () => misses,
      ...sources,
      ...watched.sources,
    },
    collectOwn,
    monotonic,
  )

  async function collectOwn(): Promise<readonly MetricData[]> {
    const limitRatios = await options.limitRatios()
    if (monotonic() - agedAt >= generationMs) {
      agedAt = monotonic()
      authorized.age()
    }
    return [
      ...authorized.data(),
      ...models.data(),
      ...api.data(),
      ...options.histograms(),
      gaugeData('tollgate_limit_used_ratio', limitRatios),
      counterData('tollgate_identity', options.proofs()),
      soleHistogram('tollgate_check_duration_seconds', durations),
    ]
  }

  return {
    /** Called for each decision of Check, with the requested model if it exists. */
    onDecided(decision: Decision, model = '') {
      const label: DecisionLabel = decision.allowed ? 'allowed' : decision.code
      decisions.set(label, (decisions.get(label) ?? 0) + 1)
      models.countCheck(model, label)
      const grant = decision.allowed ? decision : decision.grant
      if (grant === undefined || grant.listing) return
      const what = decision.allowed ? 'calls' : 'limited'
      authorized.count(what, grant.caller.user, grant.subscription, grant.owningGroup)
      if (decision.allowed && decision.uncounted) models.countUncounted(decision.model.key)
    },
    /** Called for each request that Envoy has not decided by itself, with the reason (table/rules/miss-rules.ts). */
    onMissed(reason: string): void {
      misses.set(reason, (misses.get(reason) ?? 0) + 1)
    },
    /** Called for each request that was admitted without a Check, once in all processes of a gateway. */
    onAdmitted({ user, subscription, group }: Usage): void {
      hits += 1
      authorized.count('calls', user, subscription, group)
    },
    /** Called for the tokens of each response, once in all processes of a gateway. */
    onCounted(usage: Usage, { tokens, estimated }: { tokens: number; estimated: number }) {
      const { user, subscription, model, group, reported, weights } = usage
      authorized.countTokens(tokens, user, subscription, model, group)
      models.countTokens(model, reported)
      if (weights !== undefined) {
        models.countWeighted(
          model,
          weightedTokens(chargeParts(usage, { tokens, estimated }), weights),
        )
      }
      if (estimated > 0) models.countEstimated(model, estimated)
    },
    /** Called for each success whose model reported nothing usable, once as well. */
    onUnusable: models.countUnusable,
    /** How long the last responses took to begin, or undefined without a response. */
    firstBytes: models.firstBytes,
    /** Requests that were allowed and whose tokens are not counted. */
    uncountedCalls: models.uncountedCalls,
    /** Called for each response of the REST API. */
    onApiResponse: api.count,
    /** Called for the outcome of each allowed request, once as well. */
    onEnded(outcome: RequestOutcome) {
      models.countEnded(outcome)
      authorized.observe(outcome.subscription, outcome.durationMs)
    },
    /** Wraps a function so that its durations are recorded as the durations of Checks. */
    timed:
      (check: Check): Check =>
      (bytes, traceparent, call) => {
        const begin = monotonic()
        const response = check(bytes, traceparent, call)
        if (response instanceof Promise) {
          return response.finally(() => durations.observe(monotonic() - begin))
        }
        durations.observe(monotonic() - begin)
        return response
      },
    scrape: exposition.scrape,
    producer: exposition.producer,
    stop: watched.stop,
  }
}

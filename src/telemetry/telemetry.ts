/**
 * The service's instruments. What happens with every request is counted in plain numbers; they
 * become OpenTelemetry's data, and Prometheus' text, only when somebody asks.
 */

import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import { MeterProvider, type MetricData } from '@opentelemetry/sdk-metrics'
import type { Decision } from '../core/decide.ts'
import type { ErrorCode } from '../core/errors.ts'
import type { FailureReason } from '../core/model-failure.ts'
import type { Usage } from '../core/usage.ts'
import { createCallSeries } from './call-series.ts'
import { createDurations } from './durations.ts'
import { counterData, type Point, secondsData } from './metric-data.ts'
import { watchProcess } from './process.ts'
import { type Reading, readingsOf, type Sources } from './readings.ts'

export interface TelemetryOptions {
  readonly sources: Sources
  /** The program's own. */
  readonly version: string
  /** Combinations of user, subscription and model that are told apart; 10,000 unless told. */
  readonly mostSeries?: number
  /** Milliseconds that never go back; `performance.now` unless told. */
  readonly monotonic?: () => number
}

/** A function from bytes to bytes, as the gateway's edges are; it may use the call's `traceparent`. */
export type Answering = (bytes: Buffer, traceparent?: string) => Buffer | Promise<Buffer>

export interface Telemetry {
  /** Told of each decision of Check. */
  onDecided(decision: Decision): void
  /** Told of each usage and what was counted for it. */
  onSettled(usage: Usage, settled: { tokens: number | undefined; unusable: boolean }): void
  /** Told of each request that failed at a model's server. */
  onModelFailure(model: string, reason: FailureReason): void
  /** The same function, with its durations observed as those of Check. */
  timed(answer: Answering): Answering
  /** All metrics in Prometheus' text format 0.0.4. Rejects when one cannot be read. */
  scrape(): Promise<string>
  stop(): Promise<void>
}

type DecisionLabel = 'allowed' | ErrorCode

const usualMostSeries = 10_000
const mostModels = 1_000
/** What was quiet for one to two of these may make room for another. */
const generationMs = 3_600_000
/** There from the start, so that the first of them is seen as a change. */
const usualDecisions: readonly DecisionLabel[] = [
  'allowed',
  'credential_invalid',
  'model_not_allowed',
  'subscription_not_allowed',
  'token_limit_exceeded',
  'store_unavailable',
  'store_slow',
  'store_locked',
]

/** Instruments that read these parts, until they are stopped. */
export function createTelemetry(options: TelemetryOptions): Telemetry {
  const { sources, version, mostSeries = usualMostSeries } = options
  const monotonic = options.monotonic ?? (() => performance.now())
  const decisions = new Map<string, number>(usualDecisions.map((each) => [each, 0]))
  const unusable = createModelFigure()
  const estimated = createModelFigure()
  const uncounted = createModelFigure()
  const failures = new Map<FailureReason, ModelFigure>()
  const series = createCallSeries(mostSeries)
  const durations = createDurations()
  const watched = watchProcess(version)
  let agedAt = monotonic()

  const reader = new PrometheusExporter({ preventServerStart: true })
  const provider = new MeterProvider({ readers: [reader] })
  // Without timestamps, target_info and the labels of OpenTelemetry's scopes.
  const serializer = new PrometheusSerializer('', false, undefined, true, true)
  const meter = provider.getMeter('tollgate')
  const checks: Reading = {
    kind: 'counter',
    name: 'tollgate_checks',
    help: 'Answers of Check, by decision: allowed, or the code of the refusal.',
    label: 'decision',
    read: () => decisions,
  }
  for (const reading of [checks, ...readingsOf(sources), ...watched.readings]) {
    const { kind, name, help, unit = '', label = '', read } = reading
    const create = kind === 'counter' ? 'createObservableCounter' : 'createObservableGauge'
    meter[create](name, { description: help, unit }).addCallback((result) => {
      const value = read()
      if (typeof value === 'number' && Number.isFinite(value)) result.observe(value)
      if (typeof value !== 'object') return
      for (const [of, figure] of value) result.observe(figure, { [label]: of })
    })
  }

  /** What has as many points as there are callers: the SDK would copy and hash each of them. */
  function collectOwn(): MetricData[] {
    if (monotonic() - agedAt >= generationMs) {
      agedAt = monotonic()
      series.age()
    }
    const all = [...series.all]
    const pointsOf = (figure: 'calls' | 'tokens'): readonly Point[] => [
      ...all.map(({ labels, [figure]: value }) => ({ attributes: labels, value })),
      ...overflowPoint(series.overflow[figure]),
    ]
    const data = [
      counterData('tollgate_calls', 'Requests that Check allowed.', pointsOf('calls')),
      counterData('tollgate_tokens', 'Tokens counted, as models report them.', pointsOf('tokens')),
      counterData(
        'tollgate_usage_unusable',
        'Answers that reported no usable usage.',
        unusable.points(),
      ),
      counterData(
        'tollgate_tokens_estimated',
        'Tokens counted for answers that reported none, by their length.',
        estimated.points(),
      ),
      counterData(
        'tollgate_uncounted_calls',
        'Requests allowed on paths whose tokens are not counted.',
        uncounted.points(),
      ),
      counterData(
        'tollgate_model_failures',
        "Requests that failed at a model's server, by reason.",
        [...failures].flatMap(([reason, figure]) =>
          figure.points().map(({ attributes, value }) => ({
            attributes: { ...attributes, reason },
            value,
          })),
        ),
      ),
      counterData(
        'tollgate_identity',
        'Identity tokens shown, by what had to prove them and what became of them.',
        sources.identity?.proofs() ?? [],
      ),
      secondsData(
        'tollgate_check_duration_seconds',
        'How long Check took, from bytes to bytes.',
        durations.read(),
      ),
    ]
    return data.filter(({ dataPoints }) => dataPoints.length > 0)
  }

  return {
    onDecided(decision) {
      const label: DecisionLabel = decision.allowed ? 'allowed' : decision.code
      decisions.set(label, (decisions.get(label) ?? 0) + 1)
      if (!decision.allowed) return
      series.find(decision.caller.user, decision.subscription, decision.model.key).calls += 1
      if (decision.uncounted) uncounted.add(decision.model.key, 1)
    },
    onSettled({ user, subscription, model }, { tokens = 0, unusable: isUnusable }) {
      if (isUnusable) unusable.add(model, 1)
      if (tokens === 0) return
      if (isUnusable) estimated.add(model, tokens)
      series.find(user, subscription, model).tokens += tokens
    },
    onModelFailure(model, reason) {
      const figure = failures.get(reason) ?? createModelFigure()
      failures.set(reason, figure)
      figure.add(model, 1)
    },
    timed: (answer) => (bytes, traceparent) => {
      const begin = monotonic()
      const answered = answer(bytes, traceparent)
      if (answered instanceof Promise) {
        return answered.finally(() => durations.observe(monotonic() - begin))
      }
      durations.observe(monotonic() - begin)
      return answered
    },
    async scrape() {
      const { resourceMetrics, errors } = await reader.collect()
      if (errors.length > 0) throw new AggregateError(errors, 'some metrics cannot be read')
      const own = { scope: { name: 'tollgate' }, metrics: collectOwn() }
      const scopeMetrics = [...resourceMetrics.scopeMetrics, own]
      return `${serializer.serialize({ ...resourceMetrics, scopeMetrics })}`
    },
    async stop() {
      watched.stop()
      await provider.shutdown()
    },
  }
}

interface ModelFigure {
  add(model: string, value: number): void
  points(): readonly Point[]
}

/** One figure for each of the first models; those that come later share one. */
function createModelFigure(): ModelFigure {
  const byModel = new Map<string, number>()
  let elsewhere = 0
  return {
    add(model, value) {
      const before = byModel.get(model)
      if (before === undefined && byModel.size >= mostModels) elsewhere += value
      else byModel.set(model, (before ?? 0) + value)
    },
    points: () => [
      ...[...byModel].map(([model, value]) => ({ attributes: { model }, value })),
      ...overflowPoint(elsewhere),
    ],
  }
}

/** What found no room of its own, told apart from every series by its one label. */
function overflowPoint(value: number): readonly Point[] {
  return value === 0 ? [] : [{ attributes: { overflow: 'true' }, value }]
}

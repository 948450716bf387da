/** Spans of requests to the service, and of their waits, if they are exported. */

import { trace } from '@opentelemetry/api'
import type { Decision } from '../core/decision/decide.ts'
import { toShown } from '../core/formats/redact.ts'
import { isSampled } from '../core/formats/trace-context.ts'
import type { RefusedCheck } from '../extauthz/refused-check.ts'
import type { Check } from '../extauthz/service.ts'
import { namedBy } from '../extauthz/span-tags.ts'
import type { Verify } from '../identity/authenticate.ts'
import { part } from '../runtime/stops.ts'
import type { Config } from '../settings/config.ts'
import type { ApiKeyStore } from '../store/api-keys.ts'
import type { CounterStore } from '../store/counters.ts'
import type { Otlp } from '../telemetry/otlp.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { createTracing, noTracing, type Tracing } from '../telemetry/tracing.ts'
import type { Context } from './context.ts'
import { readVersion } from './telemetry.ts'

/** Creates spans; they are not sent before `startExport`. */
export function openTracing({ otel }: Config): Tracing {
  return otel?.traces === undefined ? noTracing : createTracing(trace.getTracer('tollgate'))
}

/** Starts to send spans and metrics to a collector, if one is configured. */
export async function startExport(context: Context, { producer }: Telemetry): Promise<void> {
  const { config, log, stops } = context
  const { otel } = config
  if (otel === undefined) return
  const { startOtlp } = await import('../telemetry/otlp.ts')
  const otlp: Otlp = await startOtlp({
    ...otel,
    producer,
    metricIntervalMs: config.otelMetricIntervalMs,
    metricTimeoutMs: config.otelMetricTimeoutMs,
    resource: {
      'service.name': 'tollgate',
      'service.version': readVersion(),
      'service.instance.id': config.replicaName,
    },
    onChange(signal, problem) {
      if (problem === undefined) log.info({ signal }, 'the collector accepts exports again')
      else {
        log.warn(
          { signal, problem: toShown(problem) },
          'the collector does not take what is exported',
        )
      }
    },
  })
  stops.push(part('the export to the collector', () => otlp.stop()))
}

/** The same Check, within a span if its call is sampled. */
export function traceCheck(tracing: Tracing, check: Check): Check {
  if (tracing === noTracing) return check
  return (bytes, traceparent, call) =>
    isSampled(traceparent)
      ? tracing.server('Check', traceparent, () => check(bytes, traceparent, call))
      : check(bytes, traceparent, call)
}

/** Adds to the span of a Check where the key was found. */
export function traceKey(tracing: Tracing, verify: Verify): Verify {
  if (tracing === noTracing) return verify
  const waiting = tracing.waiting('database', verify)
  return (credential, now, source) => {
    const found = waiting(credential, now, source)
    if (tracing.isActive()) {
      tracing.annotate({ 'tollgate.key.from': found instanceof Promise ? 'store' : 'memory' })
    }
    return found
  }
}

/** The same store, with spans for its waits. */
export function traceKeys<Store extends ApiKeyStore>(tracing: Tracing, keys: Store): Store {
  if (tracing === noTracing) return keys
  const waiting = <Args extends readonly unknown[], Result>(act: (...args: Args) => Result) =>
    tracing.waiting('database', act)
  return {
    ...keys,
    findByHash: waiting(keys.findByHash),
    insert: waiting(keys.insert),
    findById: waiting(keys.findById),
    revoke: waiting(keys.revoke),
    search: waiting(keys.search),
    revokeAll: waiting(keys.revokeAll),
    countActive: waiting(keys.countActive),
    deleteExpiredEphemeral: waiting(keys.deleteExpiredEphemeral),
  }
}

/** The same counters; only shared ones ever wait. */
export function traceCounters(tracing: Tracing, counters: CounterStore): CounterStore {
  if (tracing === noTracing) return counters
  const read = tracing.waiting('redis', counters.read.bind(counters))
  return { add: counters.add.bind(counters), read }
}

interface CheckListeners<More extends readonly unknown[]> {
  readonly onDecided: (decision: Decision, ...more: More) => void
  readonly onRefused: (refused: RefusedCheck) => void
}

/** The same callbacks, which also add the decision to the Check's span. */
export function traceDecisions<More extends readonly unknown[]>(
  tracing: Tracing,
  { onDecided, onRefused }: CheckListeners<More>,
): CheckListeners<More> {
  if (tracing === noTracing) return { onDecided, onRefused }
  return {
    onDecided(decision, ...more) {
      onDecided(decision, ...more)
      if (!decision.allowed || !tracing.isActive()) return
      tracing.annotate({
        'tollgate.decision': 'allowed',
        'tollgate.subscription': decision.subscription,
        'tollgate.model': decision.model.key,
      })
    },
    onRefused(refused) {
      onRefused(refused)
      if (!tracing.isActive()) return
      const tags = Object.entries({ decision: refused.code, ...namedBy(refused) })
      tracing.annotate(Object.fromEntries(tags.map(([tag, value]) => [`tollgate.${tag}`, value])))
    },
  }
}

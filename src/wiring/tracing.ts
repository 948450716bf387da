/** OpenTelemetry: spans, and their export with the metrics to a collector. */

import { trace } from '@opentelemetry/api'
import { redactForLog } from '../formats/redact.ts'
import { readVersion } from '../runtime/package-root.ts'
import { timedStop } from '../runtime/stops.ts'
import { withTimeout } from '../runtime/with-timeout.ts'
import type { Config } from '../settings/config.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { createTracing, noTracing, type Tracing } from '../telemetry/tracing.ts'
import type { Context } from './context.ts'

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
  const otlp = await startOtlp({
    ...otel,
    producer,
    resource: {
      'service.name': 'tollgate',
      'service.version': readVersion(),
      'service.instance.id': config.replicaName,
    },
    onChange(signal, problem) {
      if (problem === undefined)
        log.info({ code: 'export_restored', signal }, 'collector available again')
      else {
        log.warn(
          { code: 'export_failing', signal, problem: redactForLog(problem) },
          'cannot export to the collector',
        )
      }
    },
  })
  stops.push(
    // Bounded: with a collector that hangs, the last seconds are lost, as with one that is unavailable.
    timedStop('the export to the collector', (graceMs) => withTimeout(graceMs, otlp.stop())),
  )
}

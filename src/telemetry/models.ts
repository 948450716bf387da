/** Requests and responses per model. */

import type { MetricData } from '@opentelemetry/sdk-metrics'
import type { RequestOutcome } from '../usage/rules/model-failure.ts'
import { type ReportedFigures, tokensByType } from '../usage/rules/usage.ts'
import { responseBounds } from './durations.ts'
import { createFirstByteTimes } from './first-bytes.ts'
import { counterData, histogramData } from './metric-data.ts'
import { createLabelledDurations, createModelCounter } from './model-figures.ts'

/** Maximum number of models with histograms of their own. */
const maxMeasured = 200

/** Starts without counts. */
export function createModelMetrics() {
  const checks = createModelCounter('decision')
  const responses = createModelCounter('code')
  const failures = createModelCounter('reason')
  const tokens = createModelCounter('type')
  const unusable = createModelCounter()
  const estimated = createModelCounter()
  const uncounted = createModelCounter()
  const firstBytes = createLabelledDurations('model', responseBounds, maxMeasured)
  const durations = createLabelledDurations('model', responseBounds, maxMeasured)
  const lastFirstBytes = createFirstByteTimes()
  return {
    /** Check made this decision for the model; empty if the model does not exist. */
    countCheck: (model: string, decision: string): void => checks.add(model, 1, decision),
    /** A request was allowed whose tokens are not counted. */
    countUncounted: (model: string): void => uncounted.add(model, 1),
    /** A response reported no usable usage. */
    countUnusable: (model: string): void => unusable.add(model, 1),
    countEstimated: (model: string, tokens: number): void => estimated.add(model, tokens),
    /** A response with this usage was counted. */
    countTokens(model: string, reported: ReportedFigures): void {
      const { input, cached, cacheWrite, output, reasoning } = tokensByType(reported)
      if (input > 0) tokens.add(model, input, 'input')
      if (cached > 0) tokens.add(model, cached, 'cached')
      if (cacheWrite > 0) tokens.add(model, cacheWrite, 'cache_write')
      if (output > 0) tokens.add(model, output, 'output')
      if (reasoning > 0) tokens.add(model, reasoning, 'reasoning')
    },
    /** As limits of tokens count it. */
    countWeighted: (model: string, counted: number): void => tokens.add(model, counted, 'counted'),
    /** An allowed request has ended. */
    countEnded({ model, status, durationMs, firstByteMs, failure }: RequestOutcome): void {
      responses.add(model, 1, String(status))
      durations.observe(model, durationMs)
      if (firstByteMs !== undefined) {
        firstBytes.observe(model, firstByteMs)
        lastFirstBytes.note(firstByteMs)
      }
      if (failure !== undefined) failures.add(model, 1, failure.reason)
    },
    /** Over all models. */
    firstBytes: lastFirstBytes.read,
    uncountedCalls: (): number => uncounted.points().reduce((sum, { value }) => sum + value, 0),
    data: (): readonly MetricData[] => [
      counterData('tollgate_model_checks', checks.points()),
      counterData('tollgate_model_responses', responses.points()),
      counterData('tollgate_model_failures', failures.points()),
      counterData('tollgate_model_tokens', tokens.points()),
      counterData('tollgate_usage_unusable', unusable.points()),
      counterData('tollgate_tokens_estimated', estimated.points()),
      counterData('tollgate_uncounted_calls', uncounted.points()),
      histogramData('tollgate_model_first_byte_seconds', firstBytes.points()),
      histogramData('tollgate_model_duration_seconds', durations.points()),
    ],
  }
}

/**
 * The specification's metrics: tokens, calls and refusals by limit of each user and subscription,
 * and the duration of allowed requests. The Tenant and the settings choose their labels.
 */

import { isDeepStrictEqual } from 'node:util'
import type { Attributes } from '@opentelemetry/api'
import type { MetricData } from '@opentelemetry/sdk-metrics'
import type { Attribution, WrittenTelemetry } from '../kinds/resources.ts'
import { answerBounds } from './durations.ts'
import { counterData, histogramData, type Point } from './metric-data.ts'
import { createLabelledDurations } from './model-figures.ts'
import { createSeries, overflowPoint, type Series } from './series.ts'
import { toUsageLabels } from './usage-labels.ts'
import { createUserNames } from './user-names.ts'

export interface LimitadorMetricsOptions {
  /** Maximum number of combinations of labels. */
  readonly maxSeries: number
  /** The key of users' hashes; names are in clear if undefined. */
  readonly userKey: string | undefined
  /** The Tenant's current choice; the same object as long as nothing has changed. */
  readonly written: () => WrittenTelemetry | undefined
  /** The current attribution of a subscription's usage. */
  readonly attributionOf: (subscription: string) => Attribution | undefined
}

const maxSubscriptions = 500

/**
 * Starts without counts. When the choice of labels changes, all figures restart at 0, as after a
 * restart.
 */
export function createLimitadorMetrics(options: LimitadorMetricsOptions) {
  const { maxSeries, userKey, attributionOf } = options
  const captured = userKey === undefined ? 'on' : 'hash'
  const nameOf = createUserNames(userKey ?? '')
  let written: WrittenTelemetry | undefined
  let labels = toUsageLabels(undefined, captured)
  let figures = begin()

  function begin() {
    return {
      calls: createSeries(maxSeries, () => ({ calls: 0, limited: 0 })),
      hits: createSeries(maxSeries, () => ({ tokens: 0 })),
      durations: createLabelledDurations('subscription', answerBounds, maxSubscriptions),
    }
  }

  /** Captured labels must not outlive the Tenant's choice. */
  function follow(): boolean {
    const now = options.written()
    if (now !== written) {
      written = now
      const fresh = toUsageLabels(now, captured)
      if (!isDeepStrictEqual(fresh, labels)) {
        labels = fresh
        figures = begin()
      }
    }
    return labels.enabled
  }

  function groupOf(group = ''): string | undefined {
    return labels.group ? group : undefined
  }

  function toAttributes(series: Series<unknown>, hasModel: boolean): Attributes {
    const { user, subscription, model, group } = series
    const attribution = labels.organization ? attributionOf(subscription) : undefined
    return {
      ...(labels.user !== 'off' && { user }),
      subscription,
      ...(hasModel && labels.model && { model }),
      ...(labels.organization && {
        organization_id: attribution?.organizationId ?? '',
        cost_center: attribution?.costCenter ?? '',
      }),
      ...(labels.group && { group: group ?? '' }),
    }
  }

  function callPoints(what: 'calls' | 'limited'): readonly Point[] {
    const points: Point[] = []
    for (const series of figures.calls.all) {
      const value = series.figures[what]
      if (value > 0) points.push({ attributes: toAttributes(series, false), value })
    }
    return [...points, ...overflowPoint(figures.calls.overflow[what])]
  }

  function hitPoints(): readonly Point[] {
    const points: Point[] = []
    for (const series of figures.hits.all) {
      points.push({ attributes: toAttributes(series, true), value: series.figures.tokens })
    }
    return [...points, ...overflowPoint(figures.hits.overflow.tokens)]
  }

  return {
    /** Counts a request that was allowed, or was refused because a limit is used up. */
    count(what: 'calls' | 'limited', user: string, subscription: string, group?: string): void {
      if (!follow()) return
      const name = nameOf(user, labels.user)
      figures.calls.find(name, subscription, '', groupOf(group))[what] += 1
    },
    countTokens(
      tokens: number,
      user: string,
      subscription: string,
      model: string,
      group?: string,
    ): void {
      if (!follow()) return
      const name = nameOf(user, labels.user)
      const modelLabel = labels.model ? model : ''
      figures.hits.find(name, subscription, modelLabel, groupOf(group)).tokens += tokens
    },
    /** An allowed request has ended, this many milliseconds after its first byte. */
    observe(subscription: string, durationMs: number): void {
      if (follow()) figures.durations.observe(subscription, durationMs)
    },
    data(): readonly MetricData[] {
      if (!follow()) return []
      return [
        counterData('authorized_hits', 'Tokens counted, as models report them.', hitPoints()),
        counterData(
          'authorized_calls',
          'Requests that were allowed, except lists of models.',
          callPoints('calls'),
        ),
        counterData(
          'limited_calls',
          'Requests refused because a limit is used up.',
          callPoints('limited'),
        ),
        histogramData(
          'authorized_request_duration_seconds',
          'Time from the first byte of an allowed request to the last byte of the response.',
          figures.durations.points(),
        ),
      ]
    },
    /** Ends a generation of series. */
    age(): void {
      figures.calls.age()
      figures.hits.age()
    },
  }
}

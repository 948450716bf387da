/**
 * The specification's metrics: tokens, calls and refusals by limit of each user and subscription,
 * and the duration of allowed requests. The Tenant and the settings choose their labels.
 */

import { createHmac } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Attributes } from '@opentelemetry/api'
import type { MetricData } from '@opentelemetry/sdk-metrics'
import { getOrAdd } from '../formats/lists.ts'
import type { Attribution, WrittenTelemetry } from '../kinds/resources.ts'
import { BoundedMap } from '../runtime/bounded-map.ts'
import { responseBounds } from './durations.ts'
import { counterData, histogramData, type Point } from './metric-data.ts'
import { createLabelledDurations } from './model-figures.ts'
import { createSeries, overflowLabels, type Series, type SeriesSet } from './series.ts'
import { toUsageLabels, type UserNaming } from './usage-labels.ts'

export interface LimitadorMetricsOptions {
  /** Maximum number of combinations of labels; 10,000 by default. */
  readonly maxSeries?: number
  /** The key of users' hashes; names are in clear if undefined. */
  readonly userKey: string | undefined
  /** The Tenant's current choice; the same object as long as nothing has changed. */
  readonly written: () => WrittenTelemetry | undefined
  /** The current attribution of a subscription's usage. */
  readonly attributionOf: (subscription: string) => Attribution | undefined
}

const maxSubscriptions = 500

/** Starts without counts. When the choice of labels changes, all figures restart at 0, as after a restart. */
export function createLimitadorMetrics(options: LimitadorMetricsOptions) {
  const { maxSeries = 10_000, userKey, attributionOf } = options
  const captured = userKey === undefined ? 'on' : 'hash'
  const nameOf = createUserNames(userKey ?? '')
  let written: WrittenTelemetry | undefined
  let labels = toUsageLabels(undefined, captured)
  let figures = begin()

  function begin() {
    return {
      calls: createSeries(maxSeries, () => ({ calls: 0, limited: 0 })),
      hits: createSeries(maxSeries, () => ({ tokens: 0 })),
      durations: createLabelledDurations('subscription', responseBounds, maxSubscriptions),
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
    return pointsOf(figures.calls, (each) => each[what], false).filter(({ value }) => value > 0)
  }

  function pointsOf<Figures>(
    { all, overflow }: SeriesSet<Figures>,
    figureOf: (figures: Figures) => number,
    hasModel: boolean,
  ): readonly Point[] {
    const points = [...all].map((series) => {
      return { attributes: toAttributes(series, hasModel), value: figureOf(series.figures) }
    })
    const rest = figureOf(overflow)
    return rest === 0 ? points : [...points, { attributes: overflowLabels, value: rest }]
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
        counterData(
          'authorized_hits',
          pointsOf(figures.hits, ({ tokens }) => tokens, true),
        ),
        counterData('authorized_calls', callPoints('calls')),
        counterData('limited_calls', callPoints('limited')),
        histogramData('authorized_request_duration_seconds', figures.durations.points()),
      ]
    },
    /** Ends a generation of series. */
    age(): void {
      figures.calls.age()
      figures.hits.age()
    },
  }
}

/** Maximum number of cached hashes; every request needs a label. */
const maxHashes = 50_000
const hashLength = 12

/**
 * The label of a user: the name, or the first 12 hexadecimal characters of its HMAC-SHA-256 with
 * `key` (the same in every process with this key), or empty for all users.
 */
function createUserNames(key: string): (user: string, naming: UserNaming) => string {
  const hashes = new BoundedMap<string, string>(maxHashes)
  return function nameOf(user, naming) {
    if (naming === 'on') return user
    if (naming === 'off') return ''
    return getOrAdd(hashes, user, () =>
      createHmac('sha256', key).update(user).digest('hex').slice(0, hashLength),
    )
  }
}

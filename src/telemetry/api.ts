/** Requests to the management API and their responses. */

import type { Attributes } from '@opentelemetry/api'
import type { MetricData } from '@opentelemetry/sdk-metrics'
import { getOrAdd } from '../formats/lists.ts'
import { callBounds } from './durations.ts'
import { counterData, histogramData } from './metric-data.ts'
import { createLabelledDurations } from './model-figures.ts'

/** More routes than there are. */
const maxRoutes = 100

/** Starts without counts. */
export function createApiMetrics() {
  const requests = new Map<string, { readonly attributes: Attributes; value: number }>()
  const durations = createLabelledDurations('route', callBounds, maxRoutes)
  let keysCreated = 0
  return {
    /** Counts a response; `route` is the pattern of its route, or empty. */
    count(route: string, method: string, status: number, durationMs: number): void {
      durations.observe(route, durationMs)
      if (route === '/v1/api-keys' && method === 'POST' && status === 201) keysCreated += 1
      const name = `${route} ${method} ${status}`
      const begin = () => ({ attributes: { route, method, code: String(status) }, value: 0 })
      getOrAdd(requests, name, begin).value += 1
    },
    data: (): readonly MetricData[] => [
      counterData('tollgate_api_requests', [...requests.values()]),
      histogramData('tollgate_api_request_duration_seconds', durations.points()),
      counterData('tollgate_api_keys_created', [{ attributes: {}, value: keysCreated }]),
    ],
  }
}

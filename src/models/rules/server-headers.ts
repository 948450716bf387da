/** Settings of a model's server that the gateway's routes and scripts need, where they differ from the defaults. */

import type { ModelRef, ModelServer } from '../../kinds/resources.ts'

/** The value in the routes of envoy/bootstrap.yaml. */
const defaultRetries = 2

/** Headers of the request, for its route. */
export function serverHeaders({
  idleMs,
  answerMs,
  retries,
}: ModelServer): readonly (readonly [name: string, value: string])[] {
  const headers: [string, string][] = []
  if (idleMs !== undefined) headers.push(['x-tollgate-idle', `${idleMs / 1_000}s`])
  if (answerMs !== undefined) headers.push(['x-envoy-upstream-rq-timeout-ms', String(answerMs)])
  if (retries !== defaultRetries) headers.push(['x-envoy-max-retries', String(retries)])
  return headers
}

/** Which usage the model's streams have in each chunk, where that matters; undefined: it does not. */
export function chunkUsageOf(
  output: ModelRef['output'],
  isMetered: boolean,
): 'true' | 'unasked' | undefined {
  if (output?.streamUsage === 'unasked') return 'unasked'
  return isMetered && output?.usageInEveryChunk ? 'true' : undefined
}

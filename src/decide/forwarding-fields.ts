/**
 * The part of a grant that the gateway's routes and scripts need and that many requests have in common. Check's
 * response (extauthz/allow-template.ts) and the decision table (table/rules/hit-plan.ts) each encode it.
 */

import type { ModelRef } from '../kinds/resources.ts'
import { formatOpenFields } from '../operations/restrictions.ts'
import type { Grant } from './decision.ts'

/** The value in the routes of envoy/bootstrap.yaml. */
const defaultRetries = 2

/** Headers by name; undefined ones are left out. The table has their values in this order. */
export function forwardingFields(grant: Grant) {
  const { model, subscription, metered, owningGroup, tariff } = grant
  const { server, output } = model.resource
  const { idleMs, answerMs, retries } = server
  return {
    routing: Object.entries({
      'x-maas-subscription': subscription,
      'x-tollgate-cluster': grant.cluster,
    }),
    body: Object.entries({
      'x-tollgate-models': grant.bodyNames,
      'x-tollgate-open': formatOpenFields(model.resource),
    }),
    /** Where the server's settings differ from the defaults. */
    server: Object.entries({
      'x-tollgate-upstream-model': server.upstreamModel ?? grant.sentName,
      'x-tollgate-idle': idleMs === undefined ? undefined : `${idleMs / 1_000}s`,
      'x-envoy-upstream-rq-timeout-ms': answerMs?.toString(),
      'x-envoy-max-retries': retries === defaultRetries ? undefined : String(retries),
    }),
    counting: Object.entries({
      'x-tollgate-chunk-usage': chunkUsageOf(output, metered),
      'x-tollgate-maximum': output?.maxTokensField === 'max_tokens' ? 'max_tokens' : undefined,
    }),
    hasCredential: server.credential !== undefined,
    /** For the head of the line. */
    subject: {
      ...{ subscription, model: model.key, group: owningGroup, tariff },
      payer: metered || grant.meteredIfReported ? grant.payer : undefined,
    },
  }
}

/** Whether the model's streams report usage unasked or in each chunk, if that matters. */
function chunkUsageOf(
  output: ModelRef['output'],
  isMetered: boolean,
): 'true' | 'unasked' | undefined {
  if (output?.streamUsage === 'unasked') return 'unasked'
  return isMetered && output?.usageInEveryChunk ? 'true' : undefined
}

/**
 * The data of an allowed request for the gateway's routes and scripts that many requests have in common. Check's
 * response (extauthz/allow-template.ts) and the decision table (table/rules/plan.ts) each write it in their form.
 */

import type { ModelRef } from '../kinds/resources.ts'
import { openedFields } from '../operations/restrictions.ts'
import type { Grant } from './decision.ts'

/** The value in the routes of envoy/bootstrap.yaml. */
const defaultRetries = 2

/** Headers by name, of which those that are undefined are not there; the table has their values in this order. */
export function forwardingOf(grant: Grant) {
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
      'x-tollgate-open': openedFields(model.resource),
    }),
    /** Where its settings differ from the defaults. */
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
    /** Of the response's line. */
    subject: {
      ...{ subscription, model: model.key, group: owningGroup, tariff },
      payer: metered || grant.meteredIfReported ? grant.payer : undefined,
    },
  }
}

/** Which usage the model's streams have in each chunk, where that matters; undefined: it does not. */
function chunkUsageOf(
  output: ModelRef['output'],
  isMetered: boolean,
): 'true' | 'unasked' | undefined {
  if (output?.streamUsage === 'unasked') return 'unasked'
  return isMetered && output?.usageInEveryChunk ? 'true' : undefined
}

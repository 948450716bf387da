/** The message of a refusal at the gateway, one sentence for the caller. */

import { toQuoted } from '../formats/quoted.ts'
import type { LimitState } from './counter.ts'
import type { Denial, DenialDetail } from './decide.ts'
import { describe } from './errors.ts'
import { bindingOf, toResetDuration } from './limit-headers.ts'

/**
 * The message of a denial; undefined if its code's message is enough. `now` in milliseconds since
 * the epoch.
 */
export function messageOf(denial: Denial, now: number): string | undefined {
  const { detail, states, retryAt } = denial
  if (detail !== undefined) return describeDetail(detail)
  if (states === undefined || retryAt === undefined) return undefined
  const waitMs = retryAt - now
  if (denial.code === 'request_limit_exceeded') return describeSpent(states, waitMs, 'requests')
  if (denial.code === 'concurrency_limit_exceeded') return describeFull(states, waitMs)
  return denial.isBusy ? describeBusy(states, waitMs) : describeSpent(states, waitMs, 'tokens')
}

function describeDetail(detail: DenialDetail): string {
  switch (detail.about) {
    case 'credential':
      return detail.reason ?? describe('credential_invalid').message
    case 'identity_token':
      return 'Inference needs an API key; an identity token is not one.'
    case 'several':
      return 'Several of your subscriptions include this model; name one in x-maas-subscription.'
    case 'query':
      return 'The query must not hold the path of another operation.'
    case 'override':
      return 'The query must not name another method; send the request with that method.'
    case 'field':
      return `The query must not have "${detail.field}"; write it into the body.`
    case 'path':
      return 'The path is malformed.'
    case 'long': {
      const whole = detail.part === 'path' ? "path after the model's name" : 'query'
      return `The ${whole} must not have more than ${detail.max} characters.`
    }
    case 'spelling':
      return `Write the path as ${detail.path}.`
    case 'unserved':
      return 'This operation is not served.'
    case 'uncounted': {
      const { method, operation, open } = detail
      const closed = `${method} ${operation} may return text that is not counted, so it is closed here`
      return `${closed}; use POST ${open.join(' or ')}.`
    }
    case 'path_needed':
      return `Name the model in the path: /<namespace>/<model>${detail.operation}.`
    case 'body':
      if (detail.problem !== undefined) return `The request body is refused: ${detail.problem}.`
      return 'The body must be a JSON object whose "model" names a model.'
    case 'model':
      return (
        `The model ${toQuoted(detail.name)} does not exist or you have no access to it; ` +
        'GET /v1/models lists yours.'
      )
    case 'key_models':
      return (
        `The API key may not call the model ${toQuoted(detail.name)}, which is not among its models; ` +
        'GET /v1/models lists them.'
      )
    case 'address': {
      const from = detail.address === undefined ? 'an unknown address' : toQuoted(detail.address)
      return `The API key may not be used from ${from}, which is outside of its allowedAddresses.`
    }
    case 'ambiguous':
      return `Several models have this name; use ${detail.paths.join(' or ')}.`
  }
}

function describeBusy(states: readonly LimitState[], waitMs: number): string {
  const { limit, used, held = 0 } = bindingOf(states, 'tokens') as LimitState
  return (
    'The rest of the token limit of your subscription for this model is held by your requests in ' +
    `progress: ${used} of ${limit.limit} tokens in ${limit.window} are used, ${held} held. ` +
    `Please try again in ${toResetDuration(waitMs)}.`
  )
}

/** May show figures, because counters are kept per user. */
function describeSpent(
  states: readonly LimitState[],
  waitMs: number,
  kind: 'tokens' | 'requests',
): string {
  const { limit, used } = bindingOf(states, kind) as LimitState
  const whose = limit.scope === 'key' ? 'this API key' : 'your subscription for this model'
  return (
    `The ${kind.slice(0, -1)} limit of ${whose} is used up: ` +
    `${used} of ${limit.limit} ${kind} in ${limit.window}. ` +
    `Please try again in ${toResetDuration(waitMs)}.`
  )
}

function describeFull(states: readonly LimitState[], waitMs: number): string {
  const { limit, used } = bindingOf(states, 'concurrency') as LimitState
  return (
    `${used} of your requests to this model are in progress, and your subscription allows ` +
    `${limit.limit} at a time. Please try again in ${toResetDuration(waitMs)}.`
  )
}

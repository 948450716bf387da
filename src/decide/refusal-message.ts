/** The message of a refusal at the gateway, one sentence for the caller. */

import { describe } from '../formats/errors.ts'
import { toQuoted } from '../formats/quoted.ts'
import { toEndTimestamp } from '../formats/timestamp.ts'
import { capsOf } from '../keys/rules/caps-of-caller.ts'
import type { LimitKind } from '../kinds/limits.ts'
import type { LimitState } from '../ratelimit/rules/counter.ts'
import { bindingOf, toResetDuration } from '../ratelimit/rules/limit-headers.ts'
import type { Denial, DenialDetail, Grant } from './decision.ts'

/**
 * The message of a denial; undefined if its code's message is enough. `now` in milliseconds since
 * the epoch.
 */
export function messageOf(denial: Denial, now: number): string | undefined {
  const { detail, grant, states, retryAt, isBusy, needed } = denial
  if (detail !== undefined) return describeDetail(detail)
  if (states === undefined || retryAt === undefined) return undefined
  const kind = kindOf(denial)
  const binding = bindingOf(states, kind) as LimitState
  const of = whereOf(binding, grant)
  const what =
    kind === 'concurrency'
      ? describeFull(binding, of)
      : isBusy
        ? describeBusy(binding, of)
        : needed === undefined
          ? describeSpent(binding, of, kind)
          : describeShort(binding, of, needed)
  return `${what} Please try again in ${toResetDuration(retryAt - now)}.`
}

/** Of the limits that the code may be about, that of the one to wait for. */
function kindOf({ code, states = [], retryAt }: Denial): LimitKind {
  const last = states.find(({ remaining, resetsAt }) => remaining === 0 && resetsAt === retryAt)
  return kinds[code] ?? last?.limit.kind ?? 'tokens'
}

const kinds: Partial<Record<Denial['code'], LimitKind>> = {
  insufficient_quota: 'cost',
  request_limit_exceeded: 'requests',
  concurrency_limit_exceeded: 'concurrency',
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
    case 'key_in_query':
      return 'The query must not hold an API key, which would reach the model and logs: send it in a header, and rotate it.'
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
    case 'stored':
      return (
        `${detail.method} ${detail.operation} is closed: all callers of this model share one account at its ` +
        'server, with what is stored there; spec.state: shared of its ModelRef opens it.'
      )
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
      return describeAmbiguous(detail)
    case 'subscription':
      return describeUnpaid(detail)
  }
}

/** A caller can use a path; who writes the resources can say whose the name is. */
function describeAmbiguous({
  paths,
  areMore,
  isListed,
}: Extract<DenialDetail, { about: 'ambiguous' }>): string {
  const mend = `use ${paths.join(' or ')}${areMore ? ' or another path' : ''}`
  if (!isListed) return `Several models have this name; ${mend}.`
  return `Several models have this name, which their servers list; ${mend}. spec.modelIds of one ModelRef makes the name its own.`
}

/** Begins as the message of the code, on which clients may match. */
function describeUnpaid({
  error,
  named,
  other,
}: Extract<DenialDetail, { about: 'subscription' }>): string {
  const code = describe('subscription_not_allowed').message.slice(0, -1)
  const why =
    named === undefined
      ? 'none of yours includes it and is ready'
      : named.by === 'key'
        ? `${toQuoted(named.name)} pays for this API key and ${error === 'not_found' ? gone : unpaid[error]}`
        : `the one in x-maas-subscription ${unpaid[error]}`
  if (other === undefined) {
    const others = named === undefined ? '' : ' None of your other subscriptions pays for it.'
    return `${code}: ${why}.${others}`
  }
  const mend = named?.by === 'token' ? 'name it in the header' : 'create an API key for that one'
  return `${code}: ${why}. Your subscription ${toQuoted(other)} includes it; ${mend}.`
}

/** The holder of a key knows the name of its subscription. */
const gone = 'is not in force, or does not exist any more'

/** What follows the name of a subscription; two of them are the same, because names must not be guessed. */
const unpaid = {
  not_found: 'is not yours',
  access_denied: 'is not yours',
  model_not_in_subscription: 'does not include it',
  model_unhealthy: 'is not ready for it',
}

/**
 * Of which subscription the limit is, which a key with caps is not told, and when its window ends; may show
 * figures, because counters are kept per user.
 */
function whereOf({ limit, resetsAt }: LimitState, grant: Grant | undefined): string {
  const isTold = grant !== undefined && limit.scope !== 'key' && capsOf(grant.caller) === undefined
  const parts = [
    ...(isTold ? [`subscription ${toQuoted(grant.subscription)}`] : []),
    ...(limit.kind === 'concurrency' ? [] : [`resets at ${toEndTimestamp(resetsAt)}`]),
  ]
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`
}

function describeBusy({ limit, used, held = 0 }: LimitState, where: string): string {
  return (
    'The rest of the token limit of your subscription for this model is held by your requests in ' +
    `progress: ${used} of ${limit.limit} tokens in ${limit.window} are used, ${held} held${where}.`
  )
}

function describeShort({ limit, used }: LimitState, where: string, needed: number): string {
  return (
    `The request asks for at least ${needed} tokens of output, more than is left of the token limit of your ` +
    `subscription for this model: ${used} of ${limit.limit} tokens${where} are used.`
  )
}

function describeSpent(
  { limit, used }: LimitState,
  where: string,
  kind: Exclude<LimitKind, 'concurrency'>,
): string {
  const whose = limit.scope === 'key' ? 'this API key' : 'your subscription for this model'
  return (
    `The ${kind.slice(0, -1)} limit of ${whose} is used up: ` +
    `${used} of ${limit.limit} ${kind} in ${limit.window}${where}.`
  )
}

function describeFull({ limit, used }: LimitState, where: string): string {
  return (
    `${used} of your requests to this model are in progress, and your subscription allows ` +
    `${limit.limit} at a time${where}.`
  )
}

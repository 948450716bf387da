/** The texts of a refusal at the gateway: one sentence for the caller, and the reason for operators. */

import { errorEntry } from '../formats/errors.ts'
import { joinFirst } from '../formats/lists.ts'
import { quoteName } from '../formats/redact.ts'
import type { Model } from '../models/rules/snapshot.ts'
import type { Denial, DenialDetail } from './decision.ts'
import { limitMessage } from './limit-message.ts'

/** The message of a denial; undefined if its code's message is enough. `now` in milliseconds since the epoch. */
export function denialMessage(denial: Denial, now: number): string | undefined {
  return denial.detail === undefined ? limitMessage(denial, now) : describeDetail(denial.detail)
}

function describeDetail(detail: DenialDetail): string {
  switch (detail.about) {
    case 'credential':
      return detail.reason ?? errorEntry('credential_invalid').message
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
      return 'The query must not hold an API key, because it would reach the model and logs: send the key in a header, and rotate it.'
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
        'server, and its stored objects; spec.state: shared of its ModelRef allows it.'
      )
    case 'uncounted': {
      const { method, operation, open } = detail
      const closed = `${method} ${operation} may return text that is not counted, so it is closed here`
      return `${closed}; use POST ${open.join(' or ')}.`
    }
    case 'path_needed':
      return `Name the model in the path: /<namespace>/<model>${detail.operation}.${
        detail.method === undefined ? '' : ` ${detail.method} has no body that could name it.`
      }`
    case 'body':
      if (detail.problem !== undefined) return `The request body is refused: ${detail.problem}.`
      return 'The body must be a JSON object whose "model" names a model.'
    case 'model':
      return (
        `The model ${quoteName(detail.name)} does not exist or you have no access to it; ` +
        'GET /v1/models lists yours.'
      )
    case 'key_models':
      return (
        `The API key may not call the model ${quoteName(detail.name)}, which is not among its models; ` +
        'GET /v1/models lists them.'
      )
    case 'unpriced':
      return `${notAllowed}: the API key has a limit on cost, and ${quoteName(detail.subscription)} has no billingRate for this model.`
    case 'address': {
      const from = detail.address === undefined ? 'an unknown address' : quoteName(detail.address)
      return `The API key may not be used from ${from}, which is outside of its allowedAddresses.`
    }
    case 'ambiguous':
      return describeAmbiguous(detail)
    case 'subscription':
      return describeUnpaid(detail)
  }
}

/** Clients may match on how these messages begin. */
const notAllowed = errorEntry('subscription_not_allowed').message.slice(0, -1)

/** A caller can use a path; whoever writes the resources can decide which model has the name. */
function describeAmbiguous({
  paths,
  areMore,
  isListed,
}: Extract<DenialDetail, { about: 'ambiguous' }>): string {
  const mend = `use ${paths.join(' or ')}${areMore ? ' or another path' : ''}`
  if (!isListed) return `Several models have this name; ${mend}.`
  return `Several models have this name, which their servers list; ${mend}. spec.modelIds of one ModelRef makes the name its own.`
}

function describeUnpaid({
  error,
  named,
  other,
}: Extract<DenialDetail, { about: 'subscription' }>): string {
  const why =
    named === undefined
      ? 'none of yours includes it and is ready'
      : named.by === 'key'
        ? describeOfKey(named.name, error)
        : `the one in x-maas-subscription ${unpaid[error]}`
  if (other === undefined) {
    const others = named === undefined ? '' : ' None of your other subscriptions pays for it.'
    return `${notAllowed}: ${why}.${others}`
  }
  const mend = named?.by === 'token' ? 'name it in the header' : 'create an API key for that one'
  return `${notAllowed}: ${why}. Your subscription ${quoteName(other)} includes it; ${mend}.`
}

/** The holder of a key knows the name of its subscription. It is empty in some keys that were taken over. */
function describeOfKey(name: string, error: keyof typeof unpaid): string {
  if (name === '') return 'no subscription is bound to this API key'
  return `${quoteName(name)} pays for this API key and ${error === 'not_found' ? gone : unpaid[error]}`
}

const gone = 'is not in force, or does not exist any more'

/** Texts after the name of a subscription; two are equal, so that names cannot be guessed. */
const unpaid = {
  not_found: 'is not yours',
  access_denied: 'is not yours',
  model_not_in_subscription: 'does not include it',
  model_unhealthy: 'is not ready for it',
}

/** Names of models, and of policies of each, in one reason. */
const shown = 3

/**
 * Why a request was refused, for the log: more detailed than the code, and for some codes more than
 * the caller may know. `closed` are models that the request names and no policy opens to the caller,
 * `outside` models of any Subscription whose servers list the name (name-lookup.ts); they are read only for a model
 * that is not allowed.
 */
export function refusalReason(
  denial: Denial,
  closed: () => readonly Model[],
  outside: () => readonly Model[] = () => [],
): string | undefined {
  const { code, detail, selection } = denial
  switch (detail?.about) {
    case 'credential':
      return detail.reason ?? 'unknown credential'
    case 'identity_token':
      return 'identity token instead of an API key'
    case 'key_models':
      return "the key's models do not include it"
    case 'unpriced':
      return 'the key has a limit on cost, and the model has no price'
    case 'address':
      return 'the address is outside of allowedAddresses'
    case 'body':
      return detail.problem ?? 'the body names no model'
    default:
  }
  if (code === 'credential_invalid') return 'no credential'
  if (code !== 'model_not_allowed') return selection
  const models = closed()
  if (models.length === 0) {
    const keys = outside().map(({ key }) => key)
    return keys.length === 0
      ? 'no such model'
      : `no model in the caller's Subscription lists the name; outside of it do ${joinFirst(keys, shown)}`
  }
  const details = models.slice(0, shown).map(({ key, policies }) => {
    if (policies.length === 0) return `none names ${key}`
    return `${key} is named by ${joinFirst(policies, shown)}`
  })
  return `no AccessPolicy opens the model to the caller: ${joinFirst(details, shown, models.length)}`
}

import { showFirst } from '../formats/lists.ts'
import type { Model } from '../models/rules/snapshot.ts'
import type { Denial } from './decision.ts'

/** Names of models, and of policies of each, in one reason. */
const shown = 3

/**
 * Why a request was refused, for the log: more detailed than the code, and for some codes more than
 * the caller may know. `closed` are the models that the request names and no policy opens to the caller
 * and `outside` those outside of its Subscription whose servers list the name (named-models.ts); they are read only
 * for a model that is not allowed.
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
      return "the key's models leave it out"
    case 'unpriced':
      return 'a limit of the key on cost needs a price of the model'
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
      : `no model in the caller's Subscription lists the name; outside of it do ${showFirst(keys, shown)}`
  }
  const details = models.slice(0, shown).map(({ key, policies }) => {
    if (policies.length === 0) return `none names ${key}`
    return `${key} is named by ${showFirst(policies, shown)}`
  })
  return `no AccessPolicy opens the model to the caller: ${showFirst(details, shown, models.length)}`
}

/**
 * Which model a name in a body means. A name that a ModelRef declares means one of those that declare it, and is
 * looked up nowhere else. Any other name is looked up only among the models of the caller's own Subscription, by
 * what their servers list: resources outside of it cannot take, block or redirect the name. Logs, metrics and
 * administrators see which models a request names whether or not its caller may use them.
 */

import { memoizeLast } from '../formats/memoize.ts'
import type { Caller } from '../identity/rules/caller.ts'
import { parsePublishedName, publishedModels } from '../models/rules/published-names.ts'
import type { CompiledSubscription, Model, Snapshot } from '../models/rules/snapshot.ts'
import { mayCallModel, mayUseModel, ownedSubscriptions } from './access.ts'
import type { AccessRequest } from './access-request.ts'
import {
  chooseSubscription,
  findSubscription,
  requestedSubscriptionOf,
} from './subscription-selection.ts'

/** Who asks; the requested Subscription counts only for a token. */
interface Asking {
  readonly caller: Caller
  readonly requestedSubscription: string | undefined
}

/** Models that a name may all mean. */
export interface AmbiguousName {
  /** At most one more than are shown. */
  readonly models: readonly Model[]
  /** Whether their servers list the name; otherwise they declare it, and the Subscription covers none of them. */
  readonly isListed: boolean
}

/** As many as are shown; thousands may share a server. */
export const maxAmbiguousShown = 10

/** The model or models that the name means for this caller, or undefined if it may use none. */
export function findModelByName(
  name: string,
  asking: Asking,
  snapshot: Snapshot,
): Model | AmbiguousName | undefined {
  const published = parsePublishedName(name)
  const declared =
    published === undefined ? snapshot.modelsByName.get(name) : publishedModels(published, snapshot)
  if (declared !== undefined) return pickDeclared(declared, asking, snapshot)
  const usable: Model[] = []
  for (const model of listedModels(name, asking, snapshot)) {
    if (mayCallModel(asking.caller, model)) usable.push(model)
    if (usable.length > maxAmbiguousShown) break
  }
  return usable.length < 2 ? usable[0] : { models: usable, isListed: true }
}

/** The models that the name may mean in a body of this caller: none that it may not use. */
export function candidateModels(
  name: string,
  asking: Asking,
  snapshot: Snapshot,
): readonly Model[] {
  const found = findModelByName(name, asking, snapshot)
  if (found === undefined) return []
  return 'key' in found ? [found] : found.models
}

/** Whether the name means one model in a body of this caller. */
export function isUnambiguousName(name: string, asking: Asking, snapshot: Snapshot): boolean {
  return candidateModels(name, asking, snapshot).length === 1
}

/** Any namespace may declare a name, thousands of times: Check goes through those that a policy opens. */
const openOnes = memoizeLast<readonly Model[], readonly Model[]>()

function openOf(declared: readonly Model[]): readonly Model[] {
  return openOnes(declared, [], () => declared.filter(({ policies }) => policies.length > 0))
}

/** The only one that the caller may use, otherwise the earliest that the caller's Subscription covers. */
function pickDeclared(
  declared: readonly Model[],
  { caller, requestedSubscription }: Asking,
  snapshot: Snapshot,
): Model | AmbiguousName | undefined {
  const usable = openOf(declared).filter((model) => mayCallModel(caller, model))
  if (usable.length < 2) return usable[0]
  const requested = requestedSubscriptionOf(caller, requestedSubscription)
  // A Subscription that cannot pay now covers it, too.
  const covered = usable.find(({ key }) => {
    const selected = chooseSubscription(snapshot, caller, requested, key)
    if (!('error' in selected)) return true
    return selected.error === 'model_unhealthy' || selected.error === 'multiple_subscriptions'
  })
  return covered ?? { models: usable.slice(0, maxAmbiguousShown + 1), isListed: false }
}

/** The models of the caller's own Subscriptions whose servers list the name, each once, whether or not a policy opens them. */
function listedModels(name: string, asking: Asking, snapshot: Snapshot): readonly Model[] {
  const found = ownSubscriptions(asking, snapshot).map((each) =>
    snapshot.servedNames.listing(name, each),
  )
  return found.length === 1 ? (found[0] ?? []) : [...new Set(found.flat())]
}

/** The Subscription of the key, or of a token's header; without a header all of the caller's. */
function ownSubscriptions(
  { caller, requestedSubscription }: Asking,
  snapshot: Snapshot,
): readonly CompiledSubscription[] {
  const requested = requestedSubscriptionOf(caller, requestedSubscription)
  if (requested === undefined) return [...ownedSubscriptions(snapshot.owners, caller)]
  const found = findSubscription(snapshot, requested)
  return found !== undefined && mayUseModel(caller, found) ? [found] : []
}

type Naming = Pick<AccessRequest, 'caller' | 'target' | 'bodyModel' | 'requestedSubscription'>

/** The key of the only model that the request names, or undefined if it names none, or several. */
export function namedModelKey(request: Naming, snapshot: Snapshot): string | undefined {
  const named = namedModels(request, snapshot)
  return named.length === 1 ? named[0]?.key : undefined
}

/** Named models that no AccessPolicy opens to the caller. */
export function modelsWithoutAccess(request: Naming, snapshot: Snapshot): readonly Model[] {
  const { caller } = request
  if (caller === null) return []
  return namedModels(request, snapshot).filter((model) => !mayUseModel(caller, model))
}

/** The search ends after this many. */
const outsideAtMost = 10

/**
 * Models whose servers list the body's name, in any Subscription. For operators, because the look-up is limited to the
 * caller's own.
 */
export function modelsListingName(
  { target, bodyModel }: Pick<Naming, 'target' | 'bodyModel'>,
  { modelsByName, servedNames }: Snapshot,
): readonly Model[] {
  if (target.modelKey !== undefined || bodyModel === undefined) return []
  if (parsePublishedName(bodyModel) !== undefined || modelsByName.has(bodyModel)) return []
  return servedNames.listingAnywhere(bodyModel, outsideAtMost)
}

/** Models that the path names, otherwise models that declare the body's name, or whose server lists it, as in the look-up. */
function namedModels(
  { caller, target, bodyModel, requestedSubscription }: Naming,
  snapshot: Snapshot,
): readonly Model[] {
  const { models, modelsByName } = snapshot
  if (target.modelKey !== undefined) {
    const model = models.get(target.modelKey)
    return model === undefined ? [] : [model]
  }
  if (bodyModel === undefined) return []
  const published = parsePublishedName(bodyModel)
  if (published !== undefined) return publishedModels(published, snapshot)
  const declared = modelsByName.get(bodyModel)
  if (declared !== undefined || caller === null) return declared ?? []
  return listedModels(bodyModel, { caller, requestedSubscription }, snapshot)
}

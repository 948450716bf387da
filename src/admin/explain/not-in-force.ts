/** Resources that would have allowed a request, and are not in force because of a problem. */

import type { ConsideredSubscription, Explanation } from '../../decide/explain.ts'
import { formatPath } from '../../formats/fields.ts'
import { acceptedKindNames } from '../../models/rules/original/original-kinds.ts'
import type { RefusedResource } from '../../models/rules/refused-resources.ts'
import type { Model } from '../../models/rules/snapshot.ts'

/** The names in a request that a broken resource may have. */
interface Names {
  /** As in the path or in the body. */
  readonly model: string | undefined
  /** Bare name of the Subscription that the request names, if any. */
  readonly subscription: string | undefined
}

/**
 * The problems that keep a resource out of force that the refused step needed, with file and line as the
 * source has written them. `problems` are all of the source, `refused` its documents about models.
 */
export function reasonsNotInForce(
  { decision, steps, model, closed, subscriptions }: Explanation,
  named: Names,
  problems: readonly string[],
  refused: readonly RefusedResource[],
): readonly string[] {
  if (decision.allowed) return []
  const keys = new Set([...(model ? [model] : closed)].map(({ key }) => key))
  function ofNames(kind: 'ModelRef' | RefusedResource['kind'], names: readonly string[]) {
    const marks = names.flatMap((name) =>
      acceptedKindNames(kind).map((written) => `: error: ${written} ${name}: `),
    )
    return problems.filter((problem) => marks.some((mark) => problem.includes(mark)))
  }
  const about = (kind: RefusedResource['kind']): readonly string[] =>
    refused
      .filter((each) => each.kind === kind && each.modelKeys.some((key) => keys.has(key)))
      .map(({ name }) => name)
  switch (steps.at(-1)) {
    case 'model':
      return ofNames('ModelRef', named.model ? [named.model.split('/').at(-1) ?? ''] : [])
    case 'access':
      return ofNames('AccessPolicy', about('AccessPolicy'))
    case 'subscription':
      return [
        ...ofNames(
          'Subscription',
          named.subscription === undefined ? about('Subscription') : [named.subscription],
        ),
        ...subscriptions.flatMap((each) => entryProblems(each, model)),
      ]
    default:
      return []
  }
}

/** Why a Subscription's entry of the model is closed, for example for lack of a price under a limit on cost. */
function entryProblems(
  { subscription, passedOver }: ConsideredSubscription,
  model: Model | undefined,
): readonly string[] {
  if (subscription === undefined || passedOver !== 'model_unhealthy') return []
  return subscription.problems
    .filter(({ entry }) => entry !== undefined && entry === model?.key)
    .map(({ path, message }) => `Subscription ${subscription.name}: ${formatPath(path)} ${message}`)
}

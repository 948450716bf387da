/**
 * The selection as the internal endpoint answers it (contract, 3.11): like `select` of a model
 * request, but a model need not be named, and a refusal says why, for operators to read.
 */

import { mayUse } from './access.ts'
import { findSubscription, isHealthy, type SelectionError } from './selection.ts'
import type { CompiledSubscription, Phase, Snapshot } from './snapshot.ts'

export interface ChoiceRequest {
  readonly user: string
  readonly groups: readonly string[]
  /** Bare or `namespace/name`; undefined when none was asked for. */
  readonly subscription: string | undefined
  /** `<namespace>/<ModelRef name>`, or whatever was written; undefined when none was. */
  readonly model: string | undefined
}

export type Choice =
  | { readonly subscription: CompiledSubscription }
  | {
      readonly error: SelectionError
      readonly message: string
      /** Of the subscription that is not healthy; undefined with the other errors. */
      readonly phase: Phase | undefined
    }

/**
 * Named: it has to exist, be the caller's, name the model and be healthy, asked in this order.
 * Not named: exactly one of the caller's healthy ones has to fit. One that is being deleted is
 * still answered when it is named; its deletion date goes with it.
 */
export function chooseSubscription(snapshot: Snapshot, request: ChoiceRequest): Choice {
  const { subscription: name, model } = request
  if (name === undefined) return chooseOnly(snapshot, request)
  const found = findSubscription(snapshot, name)
  if (found === undefined) return refuse('not_found', `There is no subscription ${name}.`)
  if (!mayUse(request, found)) {
    return refuse('access_denied', `${request.user} has no access to the subscription ${name}.`)
  }
  if (model !== undefined && !names(found, model)) {
    return refuse(
      'model_not_in_subscription',
      `The subscription ${name} does not include the model ${model}.`,
    )
  }
  return serves(found, model) ? { subscription: found } : unhealthy(found)
}

function chooseOnly(snapshot: Snapshot, request: ChoiceRequest): Choice {
  const { model } = request
  const fitting = [...snapshot.subscriptions.values()].filter(
    (one) => mayUse(request, one) && (model === undefined || names(one, model)),
  )
  const [first, second] = fitting.filter((one) => isHealthy(one) && serves(one, model))
  if (first !== undefined && second !== undefined) {
    return refuse(
      'multiple_subscriptions',
      'Several subscriptions fit; name one of them in X-MaaS-Subscription.',
    )
  }
  if (first !== undefined) return { subscription: first }
  const [sick] = fitting
  if (sick !== undefined) return unhealthy(sick)
  const what = model === undefined ? '' : ` that includes the model ${model}`
  return refuse('not_found', `${request.user} has no access to a subscription${what}.`)
}

/** Whether the subscription names the model, there or not. */
function names({ resource }: CompiledSubscription, model: string): boolean {
  return resource.modelRefs.some(({ namespace, name }) => `${namespace}/${name}` === model)
}

/** Health: with a model its limits have to stand; without one any phase but Failed passes. */
function serves({ phase, limits }: CompiledSubscription, model: string | undefined): boolean {
  if (model === undefined) return phase !== 'Failed'
  return (phase === 'Active' || phase === 'Degraded') && limits.has(model)
}

function unhealthy({ name, phase, resource }: CompiledSubscription): Choice {
  const state = resource.metadata.deleting ? 'being deleted' : phase
  const message = `The subscription ${name} is ${state} and can not serve this.`
  return { error: 'model_unhealthy', message, phase }
}

function refuse(error: SelectionError, message: string): Choice {
  return { error, message, phase: undefined }
}

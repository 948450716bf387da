/**
 * Decides one model request: an array of steps, each of which may refuse it. Their order determines which error a
 * caller sees (contract, 8.1). The last step, `limits`, needs counters: whoever enforces them continues with the grant.
 */

import type { Mutable } from '../formats/mutable.ts'
import { capsOf, isModelAllowed } from '../keys/rules/caps-of-caller.ts'
import { parsePublishedName, upstreamModelName } from '../models/rules/published-names.ts'
import type { Model, Snapshot } from '../models/rules/snapshot.ts'
import {
  isListing,
  isMetered,
  isMeteredIfReported,
  isUncounted,
  type PathRules,
  refuseSpelling,
} from '../operations/operations.ts'
import {
  type CountedLimit,
  isRequestLimit,
  joinLimits,
  windowsText,
} from '../ratelimit/rules/limit.ts'
import { mayUseModel, owningGroup, poolOfCaller } from './access.ts'
import type { AccessRequest } from './access-request.ts'
import { type Decision, type Denial, deny, type Grant } from './decision.ts'
import { observedConcurrency } from './request-hold.ts'
import { refuseAddress } from './steps/address.ts'
import { checkBudget } from './steps/budget.ts'
import { checkCredential } from './steps/credential.ts'
import { denyModel, findModel } from './steps/model.ts'
import { checkOperation, modelNameInBody } from './steps/operation.ts'
import type { DecisionContext, Step } from './steps/step.ts'
import { resolveSubscription } from './steps/subscription.ts'

/** In the order in which they run. */
const steps = [
  { name: 'credential', step: checkCredential },
  { name: 'address', step: checkAddress },
  { name: 'path', step: checkPath },
  { name: 'model', step: findModel },
  { name: 'access', step: checkAccess },
  { name: 'cap', step: checkCap },
  { name: 'operation', step: checkOperation },
  { name: 'subscription', step: resolveSubscription },
  { name: 'budget', step: checkBudget },
  { name: 'backend', step: checkBackend },
] as const satisfies readonly { readonly name: string; readonly step: Step }[]

/**
 * What may refuse a request; `address` and `cap` only if the key has such a cap. A trace has `budget` only if it
 * refuses.
 */
export type StepName = (typeof steps)[number]['name'] | 'limits'

export const stepNames: readonly StepName[] = [...steps.map(({ name }) => name), 'limits']

/** How a decision came about, before its limits. */
export interface DecisionTrace {
  readonly decision: Decision
  /** The steps that were reached. All but the last have passed; the last too, if the decision is a grant. */
  readonly steps: readonly StepName[]
  /** The model, if a step has found it. */
  readonly model: Model | undefined
}

/** Decides everything except the limits. */
export function authorize(request: AccessRequest, snapshot: Snapshot, rules: PathRules): Decision {
  return decideBySteps(begin(request, snapshot, rules))
}

/** Decides as `authorize`, and records the steps. */
export function traceDecision(
  request: AccessRequest,
  snapshot: Snapshot,
  rules: PathRules,
): DecisionTrace {
  const context = begin(request, snapshot, rules)
  const reached: StepName[] = []
  const decision = decideBySteps(context, (name, refusal) => {
    if (mayRefuse(name, request) || (name === 'budget' && refusal)) reached.push(name)
  })
  return { decision, steps: reached, model: context.model }
}

function decideBySteps(
  context: Findings,
  onStep?: (name: StepName, refusal: Denial | undefined) => void,
): Decision {
  for (const { name, step } of steps) {
    const refusal = ask(step, context)
    onStep?.(name, refusal)
    if (refusal !== undefined) return refusal
  }
  return grantOf(context)
}

/** Whether the key may be used from where its client is. */
function checkAddress({ request, caller }: DecisionContext): Denial | undefined {
  return refuseAddress(caller, request.address)
}

/** Whether path and query are spelled so that every server reads them alike. */
function checkPath({ request, rules }: DecisionContext): Denial | undefined {
  const { operation, query } = request.target
  const misspelled = refuseSpelling(operation, query, rules)
  return misspelled && { allowed: false, ...misspelled }
}

/** Whether an AccessPolicy opens the model to the caller. */
function checkAccess({ request, caller, model }: DecisionContext): Denial | undefined {
  return mayUseModel(caller, model) ? undefined : denyModel(request)
}

/** Whether the key's list of models includes the model. */
function checkCap({ request, caller, model }: DecisionContext): Denial | undefined {
  return isModelAllowed(caller, model.key) ? undefined : denyModel(request, 'key_models')
}

/** Whether the model has a server. */
function checkBackend({ model }: DecisionContext): Denial | undefined {
  return model.cluster === undefined ? deny('model_unavailable') : undefined
}

/** Whether the step applies to this caller. */
function mayRefuse(name: StepName, { caller }: AccessRequest): boolean {
  const caps = caller === null ? undefined : capsOf(caller)
  if (name === 'budget') return false
  if (name === 'address') return caps?.networks !== undefined
  return name !== 'cap' || caps?.models !== undefined
}

type Findings = Mutable<DecisionContext>

/** Nothing is found yet. */
function begin(request: AccessRequest, snapshot: Snapshot, rules: PathRules): Findings {
  const unknown = undefined as never
  return {
    request,
    snapshot,
    rules,
    caller: unknown,
    model: unknown,
    isOneAnswer: unknown,
    subscription: unknown,
    terms: unknown,
    keyLimits: unknown,
  }
}

/** Runs a step: returns its refusal, or stores its findings in the context. */
function ask(step: Step, context: Findings): Denial | undefined {
  const found = step(context)
  if (found === undefined) return undefined
  if ('allowed' in found) return found
  // One by one: each Check passes here, and `Object.assign` takes longer than the steps.
  if (found.caller !== undefined) context.caller = found.caller
  if (found.model !== undefined) context.model = found.model
  if (found.isOneAnswer !== undefined) context.isOneAnswer = found.isOneAnswer
  if (found.subscription !== undefined) context.subscription = found.subscription
  if (found.terms !== undefined) context.terms = found.terms
  if (found.keyLimits !== undefined) context.keyLimits = found.keyLimits
  return undefined
}

/** The grant of a request that no step has refused. */
function grantOf(context: DecisionContext): Grant {
  const { request, snapshot, rules, caller, model, isOneAnswer, subscription, terms } = context
  const { target, method } = request
  const { operation, query } = target
  const listing = isListing(operation, method)
  const own = listing ? undefined : context.keyLimits
  const limits = listing ? [] : (subscription.limits.get(model.key) as readonly CountedLimit[])
  const { tariff, observed, payer } = terms ?? {}
  const watched = listing ? [] : observedConcurrency(observed, own?.observed)
  const metered = isMetered(operation, rules)
  const meteredIfReported = isMeteredIfReported(operation, rules)
  return {
    allowed: true,
    caller,
    model,
    cluster: model.cluster as string,
    subscription: subscription.name,
    limits: own?.limits.length ? joinLimits(limits, own.limits) : limits,
    keyLimits: own,
    watched,
    countsRequests:
      hasRequestLimit(limits) || hasRequestLimit(own?.limits) || hasRequestLimit(watched),
    states: [],
    admission: subscription.admission,
    ...(isOneAnswer && request.isUnread && { isUnread: true }),
    metered,
    meteredIfReported,
    uncounted: isUncounted(operation, method, rules),
    listing,
    owningGroup: snapshot.tenant?.telemetry?.captureGroup
      ? owningGroup(subscription.resource, caller.groups)
      : undefined,
    payer,
    tariff: listing ? undefined : (tariff?.text ?? windowsText(limits).member),
    isByTariff: tariff?.isByTariff || own?.charged !== undefined,
    factors: tariff?.factors,
    pool: subscription.hasPools ? poolOfCaller(subscription.resource, caller.groups) : undefined,
    bodyNames:
      target.modelKey === undefined || modelNameInBody(request) !== undefined
        ? undefined
        : model.bodyNames,
    sentName: sentName(request, model, snapshot),
    upstreamPath: model.basePath + operation + query,
  }
}

/** Limits that count requests come last. */
function hasRequestLimit(limits: readonly CountedLimit[] = []): boolean {
  const last = limits[limits.length - 1]
  return last !== undefined && isRequestLimit(last)
}

/** On a model's own path the name in the body stays as it is. */
function sentName(
  { target, bodyModel }: AccessRequest,
  model: Model,
  snapshot: Snapshot,
): string | undefined {
  if (target.modelKey !== undefined || bodyModel === undefined) return undefined
  const published = parsePublishedName(bodyModel)
  return published && upstreamModelName(model, published, snapshot)
}

/** Compiles a Subscription: the payer, and its models' limits, whether its own, the models' or the Tenant's. */

import { isCostLimit, type WrittenCalendar } from '../../kinds/limits.ts'
import type {
  AdmissionMode,
  AdmissionRules,
  BilledModel,
  ModelRef,
  Subscription,
  Tenant,
} from '../../kinds/resources.ts'
import {
  type ApplicableLimit,
  compileNamedLimits,
  groupLimits,
  limitsForModel,
} from '../../ratelimit/rules/applicable-limits.ts'
import { limitsOfModel } from '../../ratelimit/rules/counted-limits.ts'
import { groupInLines } from '../../ratelimit/rules/counter-key.ts'
import { type CountedLimit, windowsText } from '../../ratelimit/rules/limit.ts'
import { formatPayer } from './payer.ts'
import {
  type CompiledSubscription,
  type ModelTerms,
  phaseOf,
  type References,
  type ResourceProblem,
  resourceKey,
} from './snapshot.ts'
import { toTariff } from './tariff.ts'

/** The inputs of limits besides the Subscription. */
interface LimitContext {
  readonly modelRefs: ReadonlyMap<string, ModelRef>
  readonly tenant: Pick<Tenant, 'limits' | 'calendar' | 'unreadable'> | undefined
  readonly admissionMode: AdmissionMode
}

/** `references`: to its models. An entry that a limit closes counts as missing, like one whose model does not exist. */
export function compileSubscription(
  resource: Subscription,
  references: References,
  context: LimitContext,
): CompiledSubscription {
  const { name } = resource.metadata
  const admission = admissionRules(resource, context.admissionMode)
  const calendar = calendarOf(resource, context.tenant)
  const limitsOn = limitsOf(resource, calendar, context)
  const limits = new Map<string, readonly CountedLimit[]>()
  const terms = new Map<string, ModelTerms>()
  const missing = new Set(references.missing)
  const problems: ResourceProblem[] = [...references.problems]
  let maxLimit = 0
  for (const [index, model] of resource.modelRefs.entries()) {
    const key = references.modelKeys[index] as string
    for (const { limit } of model.tokenRateLimits) maxLimit = Math.max(maxLimit, limit)
    if (missing.has(key)) continue
    const applying = limitsOn(key)
    const lack = lackOf(applying, model, resource, context)
    if (lack !== undefined) {
      const message = lack.closes ? `${lack.why}, so the entry of ${key} is not in force` : lack.why
      const { path = ['spec', 'modelRefs', index], because } = lack
      const more = { ...(because && { because }), ...(lack.closes && { entry: key }) }
      problems.push({ resource: resourceKey(resource), path, message, ...more })
      if (lack.closes) {
        missing.add(key)
        continue
      }
    }
    const compiled = groupLimits(limitsOfModel(name, key, model), applying)
    limits.set(key, compiled.limits)
    const tariff = toTariff({
      prices: model.billingRate,
      weights: model.weights,
      limits: compiled.charged,
      windows: windowsText(compiled.limits).member,
      organization: applying.some(({ limit }) => limit.per === 'organization')
        ? organizationOf(resource)
        : undefined,
      chargesAdmission: admission?.charge === 'admission',
      hasCostLimit: compiled.hasCostLimit,
    })
    const payer = formatPayer(resource.attribution, model)
    const observed = compiled.observed.length > 0 ? compiled.observed : undefined
    if (observed ?? tariff ?? payer) terms.set(key, { observed, tariff, payer })
  }
  return {
    name,
    resource,
    admission,
    users: new Set(resource.owner.users),
    groups: new Set(resource.owner.groups),
    limits,
    terms,
    calendar,
    hasPools: resource.limits.some(({ per }) => per === 'group'),
    priority: Math.max(0, resource.priority),
    maxLimit,
    modelKeys: references.modelKeys,
    missing,
    problems,
    phase: phaseOf(references.modelKeys, missing),
  }
}

/** All limits by name on each of its models. */
function limitsOf(
  subscription: Subscription,
  calendar: WrittenCalendar,
  { modelRefs, tenant }: LimitContext,
): (key: string) => readonly ApplicableLimit[] {
  const whose = {
    subscription: subscription.metadata.name,
    organization: organizationOf(subscription),
  }
  const own = { resource: whose.subscription, origin: 'subscription', whose } as const
  const ofAll = { resource: 'Tenant', origin: 'tenant', whose } as const
  const ours = compileNamedLimits(subscription.limits, calendar, own)
  const all = compileNamedLimits(tenant?.limits ?? [], tenant?.calendar, ofAll)
  return (key) => {
    const place = { resource: `ModelRef/${key}`, origin: 'model', whose } as const
    const ofModel = compileNamedLimits(modelRefs.get(key)?.limits ?? [], tenant?.calendar, place)
    return [...limitsForModel(key, ours), ...ofModel, ...limitsForModel(key, all)]
  }
}

interface Lack extends Pick<Partial<ResourceProblem>, 'path' | 'because'> {
  readonly why: string
  readonly closes: boolean
}

/**
 * What an entry lacks under these limits, and whether that takes it out of force: limits that refuse nothing do not.
 */
function lackOf(
  applying: readonly ApplicableLimit[],
  { billingRate, rateProblem }: BilledModel,
  { attribution }: Subscription,
  { tenant }: LimitContext,
): Lack | undefined {
  if (tenant?.unreadable !== undefined) {
    return { why: 'may have a limit in the Tenant, whose limits cannot be read', closes: true }
  }
  const costly = applying.find(({ limit }) => isCostLimit(limit))
  if (costly !== undefined && billingRate === undefined) {
    if (rateProblem !== undefined) {
      const { path, message: because } = rateProblem
      const why = `${because}, and ${nameOf(costly)} is on cost`
      return { why, closes: true, path, because }
    }
    return { why: `needs a billingRate under ${nameOf(costly)} on cost`, closes: true }
  }
  const ofEach = applying.filter(({ limit }) => limit.per === 'organization')
  const each = ofEach.find(({ limit }) => limit.enforce) ?? ofEach[0]
  if (each === undefined || attribution.organizationId) return undefined
  const why = `needs tokenMetadata.organizationId, because ${nameOf(each)} is per organization`
  return { why, closes: each.limit.enforce }
}

function nameOf({ limit, place }: ApplicableLimit): string {
  const where = { subscription: '', model: ' of the ModelRef', tenant: ' of the Tenant', key: '' }
  return `the limit ${limit.name}${where[place.origin]}`
}

function organizationOf({ attribution }: Pick<Subscription, 'attribution'>): string {
  return groupInLines(attribution.organizationId ?? '')
}

/** The calendar of a Subscription, whose missing fields are the Tenant's. */
export function calendarOf(
  { calendar = {} }: Pick<Subscription, 'calendar'>,
  tenant: Pick<Tenant, 'calendar'> | undefined,
): WrittenCalendar {
  const written = Object.entries(calendar).filter(([, value]) => value !== undefined)
  return { ...tenant?.calendar, ...Object.fromEntries(written) }
}

/** Returns undefined if the Subscription only counts. */
function admissionRules(
  { admission = {} }: Pick<Subscription, 'admission'>,
  byDefault: AdmissionMode,
): AdmissionRules | undefined {
  const { mode = byDefault, overshootPercent = 25, charge = 'admission' } = admission
  return mode === 'count' ? undefined : { overshoot: overshootPercent / 100, charge }
}

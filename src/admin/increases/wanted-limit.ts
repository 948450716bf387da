/** The limit by name for which an increase is requested or made: how it is named, found and shown. */

import type { AuditTarget } from '../../audit/event.ts'
import { invalidRequest, type ServiceError } from '../../formats/errors.ts'
import type { ExactInt } from '../../formats/exact.ts'
import { parseMoney, toAmount } from '../../formats/money.ts'
import { dayMs } from '../../formats/time.ts'
import type { LimitKind } from '../../kinds/limits.ts'
import { sharerOfCounter } from '../../models/rules/shared-limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { maxIncreases, type StoredIncrease } from '../../ratelimit/increases/active-increases.ts'
import { limitKindOfKey, parseCounterKey } from '../../ratelimit/rules/counter-key.ts'
import type { CountedLimit } from '../../ratelimit/rules/limit.ts'
import { optional, string } from '../http/schema.ts'
import { withoutEmpty } from '../http/without-empty.ts'
import { figureSchema, limitNameFields, nameSchema, type OwnLimit } from '../usage/limit-state.ts'
import { limitsOfSelection, type NamedSelection } from '../usage/shared-limits.ts'
import { readTimeField } from '../usage/usage-question.ts'

const maxDays = 92
const maxLimit = 1_000_000_000_000_000

/** The fields of requests that name a limit and a counter of it. */
export const wantedLimitFields = {
  subscription: { ...nameSchema, description: 'The Subscription whose spec.limits has the limit.' },
  model: {
    ...nameSchema,
    description:
      'The ModelRef whose spec.limits has the limit. Without subscription and model, the limit is looked up in the Tenant.',
    examples: ['llm/sim-small'],
  },
  name: { ...nameSchema, description: 'Name of the limit.' },
  limit: {
    ...figureSchema,
    description:
      'The increased limit, above the limit in the resource. For cost a decimal number as a string, or a whole number.',
  },
  until: string(`When it ends by itself (RFC 3339), within ${maxDays} days.`, {
    examples: ['2026-03-01T12:00:00Z'],
  }),
  reason: { type: 'string', minLength: 1, maxLength: 256 },
} as const

/** The fields that identify the limit and the counter that are meant. */
export const limitIdentityFields = {
  subscription: {
    type: ['string', 'null'],
    description: 'null for a limit of a model, or of the installation if model is null too.',
  },
  model: { type: ['string', 'null'] },
  name: string('Name of the limit.'),
  kind: limitNameFields.kind,
  scope: limitNameFields.scope,
  whom: optional(string('Whose counter it is, if the limit has several.')),
  limit: figureSchema,
} as const

type Part = 'subscription' | 'model' | 'user' | 'keyId' | 'whom'

/** A limit by name, and whose counter of it is meant. */
interface MeantLimit extends Partial<Readonly<Record<Part, string | null | undefined>>> {
  readonly name: string
}

/** As the audit trail names it. */
export function limitAuditTarget(meant: MeantLimit): AuditTarget {
  const { subscription, model, name: limit, user, keyId, whom } = meant
  const resource = model ? `ModelRef/${model}` : (keyId ?? subscription) ? undefined : 'Tenant'
  return withoutEmpty({ user, keyId, subscription, resource, limit, whom })
}

/** Milliseconds since the epoch, in the time that an increase may last. */
export function readIncreaseUntil(raw: string, now: number): number {
  return within(readTimeField('until', raw) as number, now, now + maxDays * dayMs)
}

/** As `readIncreaseUntil`, for a request of an increase and its decision. */
export function readRequestedUntil(raw: string, now: number): number {
  return within(readUntilInSeconds(raw), now, toSecond(now + maxDays * dayMs))
}

function within(until: number, now: number, last: number): number {
  if (until <= now) throw invalidRequest('until is over; it must be in the future.')
  if (until > last) throw invalidRequest(`until must be within ${maxDays} days.`)
  return until
}

/** In whole seconds, as it is shown, so that the shown time is the stored one. */
export function readUntilInSeconds(raw: string): number {
  return toSecond(readTimeField('until', raw) as number)
}

function toSecond(instant: number): number {
  return Math.ceil(instant / 1_000) * 1_000
}

/** The kind of resource that has the limit. */
export function limitOriginOf({ subscription, model }: Omit<NamedSelection, 'name' | 'user'>) {
  if (subscription !== undefined && model !== undefined)
    throw invalidRequest(
      'Give either subscription or model, not both: the one whose spec.limits has the limit.',
    )
  return model !== undefined ? 'model' : subscription !== undefined ? 'subscription' : 'tenant'
}

/** Each counter of the named limits, once. */
export async function limitsByName(
  named: NamedSelection,
  snapshot: Snapshot,
): Promise<readonly OwnLimit[]> {
  const origin = limitOriginOf(named)
  return (await limitsOfSelection(named, snapshot)).filter(({ limit }) => limit.origin === origin)
}

/** The refusal of one increase more than may be in force. */
export function tooManyIncreases(): ServiceError {
  return invalidRequest(
    `${maxIncreases.toLocaleString('en')} increases are in force, which is the maximum; end one first.`,
  )
}

/** Throws `invalid_request` if the limit is only counted. */
export function requireEnforcedLimit({ isEnforced }: OwnLimit): void {
  if (!isEnforced)
    throw invalidRequest(
      'name: the limit is only counted (enforce: false) and refuses no requests, so it needs no increase.',
    )
}

/** Throws `invalid_request` unless the limit is below the requested figure: a request may be older than the limit. */
export function requireLowerLimit({ limit, kind }: CountedLimit, asked: ExactInt): void {
  if (asked > limit) return
  const figure = toAmount({ kind }, limit)
  throw invalidRequest(
    `The limit is ${figure} without an increase, which is at least the requested figure; deny the request.`,
  )
}

/** Throws `invalid_request` unless the figure is above the limit. */
export function requireHigherLimit(asked: ExactInt, limit: CountedLimit): void {
  if (asked > limit.limit) return
  throw invalidRequest(`limit must be above that of the resource, ${toAmount(limit, limit.limit)}.`)
}

/** Reads a figure in the unit of the limit. */
export function readLimitFigure(kind: LimitKind, raw: number | string): ExactInt {
  if (kind === 'cost') {
    const nano = parseMoney(`${raw}`)
    if (nano !== undefined) return nano
    throw invalidRequest(
      'limit must be an amount of cost such as 60 or "60.50": at most 9000000000, with at most 9 decimal places.',
    )
  }
  if (typeof raw === 'number' && raw <= maxLimit) return raw
  throw invalidRequest(`limit must be an integer of at most ${maxLimit}.`)
}

/** The limit and the parties that a counter's key identifies. */
export function toLimitIdentityJson({
  counter,
  per,
  limit,
}: Pick<StoredIncrease, 'counter' | 'per' | 'limit'>) {
  const { subscription: resource, model, counted, user } = parseCounterKey(counter)
  const kind = limitKindOfKey({ counted })
  const [, ofModel] = /^ModelRef\/(.*)$/.exec(resource) ?? []
  const [, keyId, name = ''] = /^(?:@(.*))?#(.*)$/.exec(model) ?? []
  const whom = sharerOfCounter({ scope: per }, { key: counter })
  return {
    subscription: ofModel === undefined && resource !== 'Tenant' ? resource : null,
    model: ofModel ?? null,
    name,
    kind,
    scope: per,
    ...((per === 'user' || per === 'key') && { user }),
    ...(keyId !== undefined && { keyId }),
    ...(whom !== undefined && { whom }),
    limit: toAmount({ kind }, limit),
  } as const
}

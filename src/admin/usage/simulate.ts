/** `POST /v1/simulate`: which past usage other resources would have refused, for administrators. */

import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import { toAmount } from '../../formats/money.ts'
import { hourMs, toTimestamp } from '../../formats/time.ts'
import type { TimeRange } from '../../formats/time-range.ts'
import type { Simulate } from '../../usage/ledger/simulation.ts'
import type { SimulatedRefusals, Simulation } from '../../usage/rules/simulate.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { noteForeignRead, recordForeignRead } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { createShareQueue } from '../http/rate-limit-key.ts'
import {
  boolean,
  object,
  objects,
  optional,
  responses,
  string,
  strings,
  timestamp,
} from '../http/schema.ts'
import {
  countSchema,
  currencyOf,
  currencySchema,
  figureSchema,
  limitFields,
  toLimitNamesJson,
  windowMsOf,
} from './limit-state.ts'
import { noLedgerMessage } from './usage.ts'
import { readTimeField, timeSchema, wholeSpanOf } from './usage-question.ts'
import { toGapJson, usageGapSchema } from './usage-view.ts'

type Outcome = Awaited<ReturnType<NonNullable<Simulate>>>
type Simulated = Exclude<Outcome, { readonly refused: unknown }>

const defaultMs = 7 * 24 * hourMs
const maxDays = 92
/** Items of each list. */
const maxRows = 1_000
const shownProblems = 20
/** Characters of a problem in the message of a refusal. */
const messageLength = 150
/** A limit of which less was used in every window was never near. */
const nearShare = 0.8

const text = { type: 'string' } as const

const body = {
  additionalProperties: false,
  ...object('SimulationQuestion', {
    resources: string(
      'All resources after the change: YAML or JSON documents, separated by lines of `---`.',
      { minLength: 1 },
    ),
    from: optional({
      ...timeSchema,
      description:
        'A day or a time (RFC 3339), rounded down to the hour; by default 7 days before to.',
    }),
    to: optional({
      ...timeSchema,
      description: 'Its end, excluded, rounded up to the hour; by default now. At most 92 days.',
    }),
  }),
} as const

const schema = {
  operationId: 'simulate',
  summary: 'Simulate resources over past usage',
  description:
    'For administrators. Replays past responses with other resources: who would have been refused, when, and which limits were never near. Windows begin empty. Nothing changes.',
  tags: ['Usage'],
  security: [{ identityToken: [] }],
  body,
  response: responses('The result.', [400, 404, 413], 'SimulationResult', {
    from: timestamp,
    to: timestamp,
    answers: { ...countSchema, description: 'Responses that were replayed.' },
    refused: { ...countSchema, description: 'How many of them would have been refused.' },
    refused_then_approximate: {
      ...countSchema,
      description:
        'Refusals for limits of that time. Their requests are not replayed, because their use is unknown.',
    },
    refusals: {
      description: 'The most requests first.',
      ...objects('SimulatedRefusals', {
        user: text,
        subscription: text,
        model: text,
        name: optional(limitFields.name),
        kind: optional(limitFields.kind),
        scope: optional(limitFields.scope),
        window: optional(limitFields.window),
        limit: optional(figureSchema),
        reason: string(
          'limit: identified by kind, window and limit. Otherwise the problem of the subscription.',
          { enum: ['limit', 'not_found', 'model_not_in_subscription', 'model_unhealthy'] },
        ),
        requests: countSchema,
        tokens: { ...countSchema, description: 'Tokens that these requests used in the past.' },
        first_at: timestamp,
        last_at: timestamp,
        estimated: boolean('Whether sums of hours are among them.'),
      }),
    },
    more_refusals: { ...countSchema, description: 'How many are omitted.' },
    limits: {
      description: 'Those with the largest share used first.',
      ...objects('SimulatedLimit', {
        subscription: limitFields.subscription,
        model: limitFields.model,
        models: limitFields.models,
        name: limitFields.name,
        kind: limitFields.kind,
        scope: limitFields.scope,
        window: limitFields.window,
        limit: {
          ...figureSchema,
          description: 'For cost a decimal number as a string; most likewise.',
        },
        most: {
          ...figureSchema,
          description: 'The most that one user, or those who share it, used in a window.',
        },
        most_by: optional({
          ...text,
          description:
            'The user, or those who share it, with that use; absent if all share the limit.',
        }),
        most_at: optional(timestamp),
        near: boolean('Whether that use was at least 80 % of the limit.'),
      }),
    },
    more_limits: { ...countSchema, description: 'How many are omitted.' },
    currency: currencySchema,
    not_judged: {
      description: 'Windows for which usage of some time is unknown.',
      ...objects('NotJudged', {
        name: limitFields.name,
        kind: limitFields.kind,
        window: limitFields.window,
        from: timestamp,
        to: timestamp,
        because: string(
          'sums_of_hours: the journal of that time is incomplete, and hourly sums cannot replay windows shorter than a day, cost, weights, or kinds of tokens. groups_unknown: past usage does not say which pools some of it would be charged to.',
          { enum: ['sums_of_hours', 'longer_than_the_time', 'groups_unknown'] },
        ),
      }),
    },
    gaps: { type: 'array', items: usageGapSchema, description: 'Usage that was lost.' },
    problems: strings('Of the resources, the first 20.'),
  }),
} as const

/** The response. */
export type SimulationResponse = FromSchema<(typeof schema.response)[200]>

/** Adds the route, in a scope of administrators. One simulation runs at a time. */
export function simulateResources(app: Api, deps: ExternalDeps): void {
  const { simulate, billingCurrency, clock } = deps
  const inTurn = createShareQueue(1, 'usage_timeout')
  app.post('/v1/simulate', { schema, config: { audit: 'usage.read' } }, async (request) => {
    noteForeignRead(request, {})
    if (simulate === undefined) throw new ServiceError('not_found', { message: noLedgerMessage })
    const { resources } = request.body
    const span = readSpan(request.body, clock())
    const result = await inTurn(callerOf(request), () => simulate(resources, span))
    if ('refused' in result) {
      const message = `resources: ${showFirstProblem(result.refused)}.`
      throw invalidRequest(message)
    }
    await recordForeignRead(request, result.simulation.refusals.length)
    const response = toSimulationJson(result, span)
    return { ...response, ...currencyOf(response.limits, billingCurrency) }
  })
}

function showFirstProblem([first = '', ...more]: readonly string[]): string {
  const short = first.length > messageLength ? `${first.slice(0, messageLength)}…` : first
  return more.length > 0 ? `${short}, and ${more.length} more` : short
}

function readSpan(raw: { from?: string; to?: string }, now: number): TimeRange {
  const end = readTimeField('to', raw.to) ?? now
  const begin = readTimeField('from', raw.from) ?? end - defaultMs
  return wholeSpanOf(begin, end, hourMs, maxDays)
}

type SimulatedLimit = Simulation['limits'][number]

/** How much of a limit was used at most. */
function mostShare({ most, limit }: SimulatedLimit): number {
  return Number(most) / Number(limit.limit)
}

function toSimulationJson(
  { simulation, summed, problems, gaps, refusedThen }: Simulated,
  span: TimeRange,
) {
  const { answers, limits, refusals: found } = simulation
  const inOrder = found.toSorted((a, b) => b.requests - a.requests)
  const used = limits
    .filter(({ lacksGroups }) => !lacksGroups)
    .toSorted((a, b) => mostShare(b) - mostShare(a))
  return {
    from: toTimestamp(span.from),
    to: toTimestamp(span.to),
    answers,
    refused: found.reduce((sum, { requests }) => sum + requests, 0),
    refused_then_approximate: refusedThen,
    refusals: inOrder.slice(0, maxRows).map(toRefusalsJson),
    more_refusals: Math.max(0, found.length - maxRows),
    limits: used.slice(0, maxRows).map((each) => {
      const { subscription, model, models, limit, most, mostBy, mostAt } = each
      return {
        ...{ subscription, model, ...(models && { models }) },
        ...toLimitJson(limit),
        most: toAmount(limit, most),
        ...(mostBy !== '' && { most_by: mostBy }),
        ...(most > 0 && { most_at: toTimestamp(mostAt) }),
        near: mostShare(each) >= nearShare,
      }
    }),
    more_limits: Math.max(0, used.length - maxRows),
    not_judged: [...notJudged(simulation, summed, span)].slice(0, maxRows),
    gaps: gaps.map(toGapJson),
    problems: problems.slice(0, shownProblems),
  }
}

function toRefusalsJson({ by, firstAt, lastAt, isEstimate, ...sums }: SimulatedRefusals) {
  const { user, subscription, model, requests, tokens } = sums
  return {
    user,
    subscription,
    model,
    ...(typeof by === 'string' ? { reason: by } : { reason: 'limit', ...toLimitJson(by) }),
    requests,
    tokens,
    first_at: toTimestamp(firstAt),
    last_at: toTimestamp(lastAt),
    estimated: isEstimate,
  }
}

function toLimitJson(limit: SimulatedLimit['limit']) {
  return { ...toLimitNamesJson(limit), limit: toAmount(limit, limit.limit) }
}

/** Each name, kind and length of a window once. */
function* notJudged({ limits }: Simulation, summed: readonly TimeRange[], span: TimeRange) {
  const seen = new Set<string>()
  for (const { limit, isDecidedByHours, lacksGroups } of limits) {
    const { limitName: name = null, kind, window } = limit
    const text = `${name} ${kind} ${windowMsOf(limit)} ${lacksGroups}`
    if (seen.has(text)) continue
    seen.add(text)
    const shown = ({ from, to }: TimeRange, because: string) => {
      const times = { from: toTimestamp(from), to: toTimestamp(to) }
      return { name, kind, window: window || null, ...times, because }
    }
    if (lacksGroups) yield shown(span, 'groups_unknown')
    else if (windowMsOf(limit) > span.to - span.from) yield shown(span, 'longer_than_the_time')
    else if (!isDecidedByHours) for (const each of summed) yield shown(each, 'sums_of_hours')
  }
}

/** `POST /v1/explain`: whether a request would be allowed, and why. */

import { setImmediate } from 'node:timers/promises'
import type { AccessRequest } from '../../decide/access-request.ts'
import { type StepName, traceDecision } from '../../decide/decide.ts'
import type { Decision, Denial, Grant } from '../../decide/decision.ts'
import { type Explanation, explain } from '../../decide/explain.ts'
import { clientErrorCode } from '../../decide/limit-message.ts'
import { isRefusalOf, type PastRefusal } from '../../decide/past-refusal.ts'
import { enforceLimits } from '../../decide/steps/limits.ts'
import { ServiceError } from '../../formats/errors.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import { parseTarget } from '../../operations/request-target.ts'
import { type CounterState, counterStateAt } from '../../ratelimit/rules/counter.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { recordForeignRead } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { type Asker, askerByKey, createAskerFinder, noteForeignAsker } from './asker.ts'
import { type Hypothetical, questionSchema, readQuestion } from './explain-question.ts'
import { responseSchema } from './explain-response.ts'
import { toTableJson } from './explain-table.ts'
import { type OtherKey, toExplanationJson, toPastJson } from './explain-view.ts'
import { reasonsNotInForce } from './not-in-force.ts'

const schema = {
  operationId: 'explain',
  summary: 'Explain whether a request would be allowed',
  description:
    'Decides a request as the gateway would, and shows each step. Nothing is counted. Users may ask about their own keys and see their own subscriptions; administrators may ask about any user, and see all resources with file and line.',
  tags: ['Subscriptions'],
  body: questionSchema,
  response: responseSchema,
} as const

const pastNotFound =
  'No refusal with this request id is known. Refusals are remembered for an hour, at most 100 per user.'
/** Not the names: the caller may not be an administrator. */
const notAllResponded = 'Not every process of the service has answered; ask again.'

/** Maximum number of ends of increases, one after another, of which the result is decided. */
const maxEnds = 50

/** Adds the route. It calls the functions of Check itself; it counts nothing. */
export function explainRequests(app: Api, deps: ExternalDeps): void {
  const { isAdmin, snapshot, paths, clock, locate } = deps
  const { pastRefusals, othersRefusals, keyReach, backendOf, tableCondition } = deps
  const { findAsker, findAskerNow } = createAskerFinder(deps)
  const decide = createDryRun(deps)

  /** For an administrator: problems of resources that concern the request and are not in force. */
  async function findBroken(
    explained: Explanation,
    caller: Caller | null,
    { path, bodyModel, requestedSubscription }: Hypothetical,
  ): Promise<readonly string[]> {
    const problems = deps.resourceProblems()
    if (explained.decision.allowed || problems.length === 0) return []
    const subscription = caller?.by === 'key' ? caller.subscription : requestedSubscription
    const model = parseTarget(path)?.modelKey ?? bodyModel
    const { policies } = await deps.enforcement()
    return reasonsNotInForce(
      explained,
      { model, subscription },
      problems,
      policies.compared.refused,
    )
  }

  /** The other keys with which the request would get another response. */
  async function decidedOtherwise(
    { otherKeys = [] }: Asker,
    { decision }: Explanation,
    asked: Hypothetical,
    at: number,
  ): Promise<readonly OtherKey[]> {
    const codeOf = (each: Decision) => (each.allowed ? undefined : clientErrorCode(each, at))
    const found: OtherKey[] = []
    for (const record of otherKeys) {
      // Each takes milliseconds if the person has thousands of subscriptions.
      await setImmediate()
      const code = codeOf((await decide(askerByKey(record, at), asked, at)).decision)
      const { id: keyId, name, subscription } = record
      if (code !== codeOf(decision)) found.push({ keyId, name, subscription, code })
    }
    return found
  }

  /** When the result changes if nothing else is used: a window, an increase or the key ends. */
  async function changeOf(
    decision: Decision,
    asker: Asker,
    asked: Hypothetical,
  ): Promise<number | undefined> {
    const expiresAt = asker.expiresAt ?? Number.POSITIVE_INFINITY
    // With an expired key the request would not pass when the window ends.
    if (!decision.allowed) return (decision.retryAt ?? 0) < expiresAt ? decision.retryAt : undefined
    let { states = [] } = decision
    for (let left = maxEnds; left > 0; left -= 1) {
      const until = Math.min(
        ...states.map(({ limit }) => limit.increasedUntil ?? Number.POSITIVE_INFINITY),
      )
      if (until >= expiresAt) break
      const later = (await decide(asker, asked, until)).decision
      if (!later.allowed) return until
      states = later.states ?? []
    }
    return asker.expiresAt ?? undefined
  }

  /** Finds the refusal in this process or another one: of `user`, or of any user if that is undefined. */
  async function findPast(
    requestId: string,
    user: string | undefined,
    now: number,
  ): Promise<PastRefusal> {
    const own = pastRefusals.find(requestId, user, now)
    if (own !== undefined) return own
    const { refusals, silent } = await othersRefusals.find(requestId, user)
    const [newest] = [...refusals].sort((a, b) => b.at - a.at)
    if (newest !== undefined) return newest
    const isWhole = silent?.length === 0
    const message = isWhole ? pastNotFound : `${pastNotFound} ${notAllResponded}`
    throw new ServiceError('not_found', { message })
  }

  app.post('/v1/explain', { schema, config: { audit: 'key.explain' } }, async (request) => {
    const caller = callerOf(request)
    const now = clock()
    const question = readQuestion(request.body, caller, snapshot(), now)
    const whole = await isAdmin(caller)
    const only = onlyKeyOf(caller, keyReach)
    const show = async (asker: Asker, asked: Hypothetical, at: number) => {
      await recordForeignRead(request)
      const decided = (await decide(asker, asked, at)).explained()
      const explained = only === undefined ? decided : withoutOthers(decided)
      const broken = whole ? await findBroken(explained, asker.caller, asked) : []
      const seen = { locate: whole ? locate : undefined, broken, currency: deps.billingCurrency }
      const { tenant } = snapshot()
      return {
        ...toExplanationJson(explained, {
          ...seen,
          caller: asker.caller,
          askedAs: asker.askedAs,
          changesAt: await changeOf(explained.decision, asker, asked),
          otherwise: await decidedOtherwise(asker, explained, asked, at),
          tenant,
          path: asked.path,
          at,
          backendOf,
        }),
        ...toTableJson(explained.decision, asked, {
          condition: tableCondition(),
          snapshot: snapshot(),
          paths,
        }),
      }
    }

    if (!('requestId' in question)) {
      const asker = await findAsker(question, request, whole)
      const { askedAs } = asker
      const bound = askedAs?.key === 'new' && { requestedSubscription: askedAs.subscription }
      return show(asker, { ...question, ...bound }, question.at)
    }
    const past = await findPast(question.requestId, whole ? undefined : caller.user, now)
    if (only !== undefined && !isRefusalOf(past, { user: caller.user, keyId: only })) {
      throw new ServiceError('not_found', { message: pastNotFound })
    }
    if (past.caller) noteForeignAsker(request, past.caller)
    return {
      ...(await show(await findAskerNow(past.caller, now), past, now)),
      refusal: toPastJson(past, whole),
    }
  })
}

/** A key that sees only itself does not learn what else its owner has. */
function withoutOthers(explained: Explanation): Explanation {
  const { subscriptions } = explained
  return {
    ...explained,
    subscriptions: subscriptions.filter(({ passedOver }) => passedOver !== 'not_named'),
  }
}

interface Decided {
  readonly decision: Decision
  readonly explained: () => Explanation
}

function createDryRun(deps: ExternalDeps) {
  const { snapshot, readCounters, limits, paths, clock, tokensOpenInference, increases } = deps

  /** `explained` takes time in proportion to the caller's subscriptions and the model's policies. */
  async function decide(asker: Asker, asked: Hypothetical, at: number): Promise<Decided> {
    const { caller, ended, isStandIn } = asker
    const { path, address, ...request } = asked
    if (caller === null || ended !== undefined) {
      const detail = { about: 'credential', reason: ended } as const
      return refuse({ allowed: false, code: 'credential_invalid', detail }, ['credential'])
    }
    const target = parseTarget(path)
    if (target === undefined) {
      return refuse({ allowed: false, code: 'not_found' }, ['credential', 'path'])
    }
    const tokensOpen = isStandIn || tokensOpenInference
    const access = { ...request, caller, target, tokensOpen, address }
    const known = snapshot()
    const traced = traceDecision(access, known, paths)
    const { decision } = traced
    const decided = decision.allowed ? await enforce(decision, access, at) : decision
    return { decision: decided, explained: () => explain(access, traced, decided, known) }
  }

  /**
   * Stores know windows that have begun, so they are asked only about now. At a later time, what runs now has ended.
   */
  async function enforce(granted: Grant, request: AccessRequest, at: number): Promise<Decision> {
    if (at <= clock()) return limits(granted, request, at)
    const grant = increases.raiseOf(granted, at)
    const counters = grant.limits.map((limit) => counterOf(limit, grant.caller.user, grant.pool))
    const states = await readCounters(counters, clock())
    const later = counters.map((each, i) => counterStateAt(each, states[i] as CounterState, at))
    return enforceLimits(grant, later, at)
  }

  return decide
}

function refuse(decision: Denial, steps: readonly StepName[]): Decided {
  const nothing = { closed: [], outside: [], policies: [], subscriptions: [] }
  return { decision, explained: () => ({ decision, steps, model: undefined, ...nothing }) }
}

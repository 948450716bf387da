/** `POST /v1/explain`: whether a request would be allowed, and why. */

import { setImmediate } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import type { AccessRequest } from '../../decide/access-request.ts'
import { type StepName, trace } from '../../decide/decide.ts'
import type { Decision, Denial, Grant } from '../../decide/decision.ts'
import { type Explanation, explain } from '../../decide/explain.ts'
import { isOf, type PastRefusal } from '../../decide/past-refusal.ts'
import { findSubscription } from '../../decide/selection.ts'
import { enforceLimits } from '../../decide/steps/limits.ts'
import { ServiceError } from '../../formats/errors.ts'
import { describeEnd } from '../../identity/authenticate.ts'
import type { Caller, TokenCaller } from '../../identity/rules/caller.ts'
import { type ApiKeyRecord, endsSoon } from '../../keys/rules/api-key.ts'
import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import { compileCaps } from '../../keys/rules/compiled-caps.ts'
import { isListing } from '../../operations/operations.ts'
import { readTarget } from '../../operations/target.ts'
import { type CounterState, stateLater } from '../../ratelimit/rules/counter.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { lookAtOthers, showOthers } from '../http/audit.ts'
import { callerOf } from '../http/authenticate.ts'
import { foundKey, isKeyId } from '../keys/key-access.ts'
import { responseSchema } from './explain-answer.ts'
import {
  type Hypothetical,
  type Question,
  questionSchema,
  readQuestion,
} from './explain-question.ts'
import { toTableJson } from './explain-table.ts'
import { type AskedAs, type OtherKey, toExplanationJson, toPastJson } from './explain-view.ts'
import { newestKeys, subscriptionOfNewKey } from './newest-keys.ts'
import { notInForce } from './not-in-force.ts'

type ExplainDeps = Pick<
  ExternalDeps,
  | ('keys' | 'isAdmin' | 'keyReach' | 'snapshot' | 'readCounters' | 'limits' | 'paths' | 'clock')
  | ('pastRefusals' | 'othersRefusals' | 'locate' | 'backendOf' | 'tokensOpenInference')
  | ('resourceProblems' | 'enforcement' | 'tableCondition' | 'billingCurrency' | 'increases')
>

/** Who would ask. */
interface Who {
  /** null: a credential that is not valid. */
  readonly caller: Caller | null
  /** Why the key is not valid. */
  readonly ended?: string | undefined
  /** When the key expires, in milliseconds since the epoch; null: never. */
  readonly expiresAt?: number | null
  readonly askedAs?: AskedAs
  /** Others that the person may have meant. */
  readonly otherKeys?: readonly ApiKeyRecord[]
  /** Whether a person stands for a key of theirs. */
  readonly isStandIn?: boolean
}

interface Decided {
  readonly decision: Decision
  readonly explained: () => Explanation
}

type Known = Who & { readonly caller: Caller }

const schema = {
  operationId: 'explain',
  summary: 'Explain whether a request would be allowed',
  description:
    'Decides a request as the gateway would, and shows each step. Nothing is counted. Users may ask about their own keys and see their own subscriptions; administrators may ask about anybody, and see all resources with file and line.',
  tags: ['Subscriptions'],
  body: questionSchema,
  response: responseSchema,
} as const

const pastNotFound =
  'No refusal with this request id is known. Those of the last hour are remembered, 100 of each user.'
/** Not the names: the caller may not be an administrator. */
const notAllAnswered = 'Not every process of the service has answered; ask again.'

/** Adds the route. It calls the functions of Check itself; it counts nothing. */
export function explainRequests(app: Api, deps: ExplainDeps): void {
  const { keys, isAdmin, snapshot, readCounters, limits, paths, clock, locate } = deps
  const { pastRefusals, othersRefusals, keyReach, backendOf, tokensOpenInference } = deps
  const { increases } = deps
  const { tableCondition: condition = () => 'off' } = deps

  /** `explained` takes as long as the caller has subscriptions, and the model policies. */
  async function decide(who: Who, asked: Hypothetical, at: number): Promise<Decided> {
    const { caller, ended, isStandIn } = who
    const { path, address, ...request } = asked
    if (caller === null || ended !== undefined) {
      const detail = { about: 'credential', reason: ended } as const
      return refuse({ allowed: false, code: 'credential_invalid', detail }, ['credential'])
    }
    const target = readTarget(path)
    if (target === undefined) {
      return refuse({ allowed: false, code: 'not_found' }, ['credential', 'path'])
    }
    const tokensOpen = isStandIn || tokensOpenInference
    const access = { ...request, caller, target, tokensOpen, address }
    const known = snapshot()
    const traced = trace(access, known, paths)
    const { decision } = traced
    const decided = decision.allowed ? await enforce(decision, access, at) : decision
    return { decision: decided, explained: () => explain(access, traced, decided, known) }
  }

  /** Stores know windows that have begun, so they are asked only as of now. Later, what runs now has ended. */
  async function enforce(granted: Grant, request: AccessRequest, at: number): Promise<Decision> {
    if (at <= clock()) return limits(granted, request, at)
    const grant = increases?.raiseOf(granted, at) ?? granted
    const counters = grant.limits.map((limit) => counterOf(limit, grant.caller.user, grant.pool))
    const states = await readCounters(counters, clock())
    const later = counters.map((each, i) => stateLater(each, states[i] as CounterState, at))
    return enforceLimits(grant, later, at)
  }

  /** Of an administrator's question: the problems of what was written for the request and is not in force. */
  async function findBroken(
    explained: Explanation,
    caller: Caller | null,
    { path, bodyModel, requestedSubscription }: Hypothetical,
  ): Promise<readonly string[]> {
    const problems = deps.resourceProblems()
    if (explained.decision.allowed || problems.length === 0) return []
    const subscription = caller?.by === 'key' ? caller.subscription : requestedSubscription
    const model = readTarget(path)?.modelKey ?? bodyModel
    const { policies } = await deps.enforcement()
    return notInForce(explained, { model, subscription }, problems, policies.compared.refused)
  }

  /** Those of the other keys with which the request would get another response. */
  async function decidedOtherwise(
    { otherKeys = [] }: Who,
    { decision }: Explanation,
    asked: Hypothetical,
    at: number,
  ): Promise<readonly OtherKey[]> {
    const codeOf = (each: Decision) => (each.allowed ? undefined : each.code)
    const found: OtherKey[] = []
    for (const record of otherKeys) {
      // Each may take milliseconds where the person has thousands of subscriptions.
      await setImmediate()
      const code = codeOf((await decide(ofKey(record, at), asked, at)).decision)
      const { id: keyId, name, subscription } = record
      if (code !== codeOf(decision)) found.push({ keyId, name, subscription, code })
    }
    return found
  }

  async function findKey(id: string, at: number): Promise<Known | undefined> {
    const record = isKeyId(id) ? await keys.findById(id) : undefined
    return record && ofKey(record, at)
  }

  function ofKey(record: ApiKeyRecord, at: number): Known {
    const { user, groups, subscription, expiresAt } = record
    const caps = compileCaps(record)
    const caller = {
      ...({ by: 'key', user, groups, keyId: record.id, subscription } as const),
      ...(caps && { caps }),
      ...(endsSoon(record, at) && expiresAt !== null && { endsSoonAt: expiresAt }),
    }
    return { caller, ended: describeEnd(record, at), expiresAt }
  }

  /** Somebody with a key: the newest, of the subscription if one is named, else a new one. */
  async function standIn(
    person: TokenCaller,
    { at, requestedSubscription: requested }: Question,
  ): Promise<Known> {
    const of = requested && (findSubscription(snapshot(), requested)?.name ?? requested)
    const [record, ...otherKeys] = await newestKeys(keys, person.user, of, clock())
    if (record !== undefined) {
      const { id: keyId, name, subscription } = record
      const askedAs = { key: 'newest', keyId, name, subscription } as const
      return { ...ofKey(record, at), askedAs, otherKeys }
    }
    const subscription =
      requested === undefined ? subscriptionOfNewKey(person, snapshot()) : undefined
    const asNew = subscription && { askedAs: { key: 'new', subscription } as const }
    return { caller: person, isStandIn: true, ...asNew }
  }

  /** Whether identity tokens allow the request. */
  function takesTokens({ path, method }: Question): boolean {
    const operation = readTarget(path)?.operation
    return tokensOpenInference || (operation !== undefined && isListing(operation, method))
  }

  /** The person, or the key's owner; refuses a user who asks about another one. */
  async function readWho(
    question: Question,
    request: FastifyRequest,
    whole: boolean,
  ): Promise<Known> {
    const { keyId, person, named, at } = question
    const caller = callerOf(request)
    const { user, groups } = caller
    const only = onlyKeyOf(caller, keyReach)
    if (keyId === undefined) {
      lookAt(request, person)
      if (only !== undefined && person !== caller) {
        throw new ServiceError('admin_required', { message: onlyItself })
      }
      const isSelf = person.user === user && person.groups.every((each) => groups.includes(each))
      if (!whole && !isSelf) throw new ServiceError('admin_required', { message: notYours })
      if (named) return standIn(named, question)
      return person.by === 'key' || takesTokens(question)
        ? { caller: person }
        : standIn(person, question)
    }
    const found = keyId === (only ?? keyId) ? await findKey(keyId, at) : undefined
    if (found !== undefined) lookAt(request, found.caller)
    return foundKey(whole || found?.caller.user === user ? found : undefined)
  }

  /** The caller of a request, with the key as it is now. */
  async function whoNow(caller: Caller | null, now: number): Promise<Who> {
    if (caller?.by !== 'key') return { caller }
    return (await findKey(caller.keyId, now)) ?? { caller, ended: keyGone }
  }

  /** The refusal, of this process or another one. `user` undefined: any. */
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
    const message = isWhole ? pastNotFound : `${pastNotFound} ${notAllAnswered}`
    throw new ServiceError('not_found', { message })
  }

  app.post('/v1/explain', { schema, config: { audit: 'key.explain' } }, async (request) => {
    const caller = callerOf(request)
    const now = clock()
    const question = readQuestion(request.body, caller, snapshot(), now)
    const whole = await isAdmin(caller)
    const show = async (who: Who, asked: Hypothetical, at: number) => {
      await showOthers(request)
      const explained = (await decide(who, asked, at)).explained()
      const broken = whole ? await findBroken(explained, who.caller, asked) : []
      const seen = { locate: whole ? locate : undefined, broken, currency: deps.billingCurrency }
      const { tenant } = snapshot()
      return {
        ...toExplanationJson(explained, {
          ...who,
          ...seen,
          otherwise: await decidedOtherwise(who, explained, asked, at),
          tenant,
          path: asked.path,
          at,
          backendOf,
        }),
        ...toTableJson(explained.decision, asked, {
          condition: condition(),
          snapshot: snapshot(),
          paths,
        }),
      }
    }

    if (!('requestId' in question)) {
      const who = await readWho(question, request, whole)
      const { askedAs } = who
      const bound = askedAs?.key === 'new' && { requestedSubscription: askedAs.subscription }
      return show(who, { ...question, ...bound }, question.at)
    }
    const past = await findPast(question.requestId, whole ? undefined : caller.user, now)
    const only = onlyKeyOf(caller, keyReach)
    if (only !== undefined && !isOf(past, { user: caller.user, keyId: only })) {
      throw new ServiceError('not_found', { message: pastNotFound })
    }
    if (past.caller) lookAt(request, past.caller)
    return {
      ...(await show(await whoNow(past.caller, now), past, now)),
      refusal: toPastJson(past, whole),
    }
  })
}

const keyGone = 'The API key does not exist any more.'
const onlyItself = 'This API key may ask only about itself; use an identity token.'
const notYours =
  'Only an administrator may ask what another user may call. With your own name, give only your own groups.'

function lookAt(request: FastifyRequest, { user, ...other }: Caller): void {
  if (user === callerOf(request).user) return
  lookAtOthers(request, { ...(other.by === 'key' && { keyId: other.keyId }), user })
}

function refuse(decision: Denial, steps: readonly StepName[]): Decided {
  const nothing = { closed: [], outside: [], policies: [], subscriptions: [] }
  return { decision, explained: () => ({ decision, steps, model: undefined, ...nothing }) }
}

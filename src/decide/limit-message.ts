/**
 * The message of a refusal by a limit: which limit it is, how much of it is used, when it resets, and who shares it.
 */

import type { ErrorCode } from '../formats/errors.ts'
import { formatMoney } from '../formats/money.ts'
import { quoteName } from '../formats/redact.ts'
import { toEndTimestamp, toZonedTimestamp } from '../formats/time.ts'
import { capsOf } from '../keys/rules/caps-of-caller.ts'
import type { LimitKind, LimitScope } from '../kinds/limits.ts'
import type { CountedLimit, LimitState } from '../ratelimit/rules/limit.ts'
import { secondsUntil, showsFigures, toResetDuration } from '../ratelimit/rules/limit-headers.ts'
import type { Denial, Grant } from './decision.ts'

/** Returns undefined if no limit has refused. `now` in milliseconds since the epoch. */
export function limitMessage(denial: Denial, now: number): string | undefined {
  const { grant, refusing, retryAt } = denial
  if (refusing === undefined || retryAt === undefined) return undefined
  const what = describe(denial, refusing, whereOf(refusing, grant))
  // A person waits until a budget resets, and the message says when; a program would take the sentence as a request to
  // wait.
  if (refusing.limit.kind === 'cost' && secondsUntil(retryAt, now) > longestWaitS) return what
  return `${what} Please try again in ${toResetDuration(retryAt - now)}.`
}

/** Programs wait up to this long without a person. */
const longestWaitS = 60

/** The code that clients get. They take insufficient_quota as final: while they may wait for a budget, it has the code of tokens. */
export function clientErrorCode({ code, retryAt }: Denial, now: number): ErrorCode {
  const isSoon = secondsUntil(retryAt ?? now, now) <= longestWaitS
  return isSoon && code === 'insufficient_quota' ? 'token_limit_exceeded' : code
}

function describe({ isBusy, needed }: Denial, state: LimitState, where: string): string {
  const { limit, used, held = 0 } = state
  const { kind, limitName } = limit
  const name = nameOf(limit)
  if (kind === 'concurrency' && limitName === undefined) {
    return (
      `${used} of your requests to this model ${used === 1 ? 'is' : 'are'} in progress, and your subscription allows ` +
      `${limit.limit} at a time${where}.`
    )
  }
  if (isBusy && kind !== 'concurrency') {
    const whose = sharing[limit.scope] === undefined ? 'your requests' : 'requests'
    const rest = showsFigures(limit) ? `${amountIn(kind, held)} held` : 'the rest is held'
    return `The rest of the ${name} is held by ${whose} in progress: ${figuresOf(state)} are used, ${rest}${where}.`
  }
  if (needed === undefined) return `The ${name} is used up: ${figuresOf(state)}${where}.`
  const asks =
    kind === 'tokens' || kind === 'output'
      ? `asks for at least ${needed} tokens of output,`
      : 'may use'
  return `The request ${asks} more than is left of the ${name}: ${figuresOf(state)} are used${where}.`
}

const nouns: Readonly<Record<LimitKind, readonly [limit: string, unit: string]>> = {
  tokens: ['token limit', ' tokens'],
  input: ['input token limit', ' input tokens'],
  output: ['output token limit', ' output tokens'],
  requests: ['request limit', ' requests'],
  concurrency: ['concurrency limit', ' requests in progress'],
  cost: ['budget', ''],
}

const places: Readonly<Record<CountedLimit['origin'], string>> = {
  subscription: 'your subscription',
  model: 'this model',
  tenant: 'this installation',
  key: 'this API key',
}

function nameOf({ kind, limitName, origin }: CountedLimit): string {
  const [noun] = nouns[kind]
  if (limitName !== undefined) return `${noun} ${quoteName(limitName)} of ${places[origin]}`
  return `${noun} of ${places[origin]}${origin === 'subscription' ? ' for this model' : ''}`
}

/** `140 of 100 tokens in 1m`; of a shared limit whose figures callers do not see: `100 % in a month`. */
function figuresOf({ limit, used }: LimitState): string {
  const { kind, parsedWindow, window } = limit
  const time = 'every' in parsedWindow ? ` in a ${parsedWindow.every}` : window && ` in ${window}`
  if (!showsFigures(limit)) {
    const percent = Math.floor((100 * Number(used)) / Number(limit.limit))
    return `${used < limit.limit ? Math.min(99, percent) : 100} %${time}`
  }
  return `${amountIn(kind, used)} of ${amountIn(kind, limit.limit)}${nouns[kind][1]}${time}`
}

function amountIn(kind: LimitKind, amount: LimitState['used']): string {
  return kind === 'cost' ? formatMoney(amount) : String(amount)
}

/** Who shares a limit; callers do not see which of them have used it. */
const sharing: Partial<Record<LimitScope, string>> = {
  group: 'your group',
  subscription: 'all users of your subscription',
  model: 'all users of the model',
  organization: 'your organization',
  installation: 'all users of the installation',
}

/** The limit's subscription (hidden from a key with caps), who shares the limit, and when its window ends. */
function whereOf({ limit, resetsAt }: LimitState, grant: Grant | undefined): string {
  const { kind, scope, origin } = limit
  const isTold = grant !== undefined && origin === 'subscription' && !capsOf(grant.caller)
  const sharers = scope === 'group' && grant?.pool === '' ? usersByName : sharing[scope]
  const parts = [
    ...(isTold ? [`subscription ${quoteName(grant.subscription)}`] : []),
    ...(sharers === undefined ? [] : [`shared by ${sharers}`]),
    ...(kind === 'concurrency' ? [] : [`resets at ${resetIn(limit, resetsAt)}`]),
  ]
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`
}

/** Callers who own a Subscription by name, not by a group. */
const usersByName = 'the users whom your subscription names'

function resetIn({ parsedWindow }: CountedLimit, resetsAt: number): string {
  if (!('every' in parsedWindow)) return toEndTimestamp(resetsAt)
  const { zone } = parsedWindow
  return `${toZonedTimestamp(resetsAt, zone)}${zone === 'UTC' ? '' : ` in ${zone}`}`
}

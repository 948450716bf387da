/** Holds room for a request, and takes one of each limit that counts requests, before it is allowed. */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type AccessRequest,
  type Decision,
  decideUnread,
  enforceLimits,
  type Grant,
  type RequestSize,
  type Reserve,
  reservesTokens,
} from '../decide/decide.ts'
import { decideReserved } from '../decide/reserve.ts'
import { ServiceError } from '../formats/errors.ts'
import type { CounterStore } from '../ratelimit/counters.ts'
import type { AskedHold, HoldAnswer, HoldStore } from '../ratelimit/holds.ts'
import {
  type CountedLimit,
  type CounterState,
  counterOf,
  isTaken,
} from '../ratelimit/rules/counter.ts'
import { mostEver } from '../ratelimit/rules/estimates/admit.ts'
import type { Expected } from '../ratelimit/rules/estimates/estimator.ts'
import { type Estimators, ownerOf } from '../ratelimit/rules/estimates/estimators.ts'
import { userInLines } from '../ratelimit/rules/line-user.ts'

export interface ReserveDeps {
  readonly holds: HoldStore
  readonly counters: Pick<CounterStore, 'read'>
  readonly estimators: Estimators
  /**
   * When the store of holds does not respond: this process decides alone, or nobody is admitted. Nobody who
   * reserves is for the first `briefMs` either.
   */
  readonly onLoss: 'allow' | 'deny'
  /** Only decides, and holds nothing. */
  readonly isDry?: boolean
  /** Resolves after this many milliseconds. */
  readonly pause?: (ms: number) => Promise<unknown>
}

type Windows = HoldAnswer['windows']

/**
 * The outages in which the bound of requests that reserve holds, whatever the setting: pauses, and usual
 * failovers. Milliseconds.
 */
export const briefMs = 10_000

/** A lost connection is usually back within a second: Checks of that time ask again. Milliseconds. */
const blipMs = 1_000
const blipPausesMs = [100, 300, 600]

/** Checks of this process, each with a name that no other Check has. */
const ownName = randomUUID().slice(0, 13)
let checks = 0

/** The function that `decide` calls for subscriptions that reserve, and for limits that are taken from. */
export function createReserve(deps: ReserveDeps): Reserve {
  const { holds, counters, estimators, onLoss, isDry = false, pause = delay } = deps
  const read = counters.read.bind(counters)
  /** When the store of holds first did not respond; undefined: it has since. */
  let awaySince: number | undefined

  return function reserve(grant, request, now) {
    const { admission, caller, limits, subscription, model, takes } = grant
    const countersOf = (chosen: readonly CountedLimit[]) =>
      chosen.map((each) => counterOf(each, caller.user))
    const ofTokens = takes ? limits.filter((limit) => !isTaken(limit)) : limits
    const tokens = countersOf(ofTokens)
    const taken = takes ? countersOf(limits.filter(isTaken)) : []
    const isReserving = reservesTokens(grant)
    const isRead = capped.test(request.target.operation)
    if (isReserving && isRead && request.isUnread) return decideUnread(grant, read, now)
    const { sized, expected, estimate, defaultMs } = isReserving
      ? sizeUp(estimators, grant, request)
      : {
          ...unsized,
          defaultMs: estimators.of(ownerOf(subscription, userInLines(caller.user)), model.key)
            .defaultMs,
        }
    const { bytes, maxOutput, choices } = sized
    const size = { bytes, maxOutput, choices, admittedAt: now, estimate }
    // A request without an id is counted too; nobody can say that it has ended.
    const id = isDry ? undefined : (request.requestId ?? (takes ? randomUUID() : undefined))
    const { overshoot, charge } = admission ?? uncharged
    const { honoursMaxTokens = true } = model.resource.output ?? {}
    const canCap = isReserving && honoursMaxTokens && isRead
    const never =
      isReserving && (sized.problem ?? (canCap || expected.isSeveral ? tooMuch() : undefined))
    if (never) {
      return { allowed: false, code: 'invalid_body', detail: { about: 'body', problem: never } }
    }
    const nameAsker = () =>
      id === undefined || !request.call ? undefined : `${ownName}-${checks++}`
    let asker = nameAsker()
    let attempts = 0

    /** Why the request does not fit into its limits even while they are unused; undefined: it does. */
    function tooMuch(): string | undefined {
      const limits = tokens.map(({ limit }) => limit)
      const most = mostEver(limits, expected, overshoot)
      if (expected.least <= most) return undefined
      return canCap
        ? describeTooMuch(sized, expected.least, most)
        : `its ${sized.choices} answers may use ${expected.least} tokens of output, which nothing bounds at this model, and may have ${Math.max(0, most)}; ask for fewer (n, best_of, prompt)`
    }

    /** `windows`: of the tokens, then of what is taken. */
    function conclude({ outcome, cap, windows }: HoldAnswer): Decision {
      const own = asker
      if (outcome === 'held' && id !== undefined && own !== undefined) {
        request.call?.whenReset(() => holds.undo([...tokens, ...taken], id, own))
      }
      const inOrder = takes ? toOrder(limits, windows) : windows
      const answer = { outcome, cap, windows: inOrder }
      return decideReserved(grant, answer, size, defaultMs, expected)
    }

    function ask(hold: Hold, asked: Partial<AskedHold>, then: (answer: HoldAnswer) => Decision) {
      const sized = { counters: tokens, taken, expected, overshoot, charge, canCap }
      const known = { id, asker, ...sized, ...asked }
      const once = () => hold(known, now)
      const answer = once()
      if (!(answer instanceof Promise) && !mayBeOver(answer)) return then(answer)
      return askAgain(answer, once).then(then, decideAlone)
    }

    async function askAgain(first: Asked, once: () => Asked): Promise<HoldAnswer> {
      let answer = await first
      // Only a shared store answers late.
      if (first instanceof Promise) awaySince = undefined
      for (const ms of waitsMs) {
        if (!mayBeOver(answer)) break
        await pause(ms)
        answer = await once()
      }
      return answer
    }

    /**
     * Whether what is in the way may have ended, and only its report is under way: a client that sends
     * one request after another would be refused by its own last one.
     */
    function mayBeOver({ outcome, open = 0 }: HoldAnswer): boolean {
      return outcome === 'busy' && id !== undefined && open > 0 && open <= fewOpen
    }

    /** Tokens are compared with their counters, the rest is taken. */
    function decideCounted(hold: Hold, used: Windows): Decision | Promise<Decision> {
      if (taken.length === 0) return enforceLimits(grant, used, now)
      const isSpent = tokens.some(({ limit }, i) => (used[i]?.used ?? 0) >= limit)
      const asked = { counters: [], canCap: false, ...(isSpent && { id: undefined }) }
      return ask(hold, asked, (answer) => {
        const windows = [...used, ...answer.windows]
        return conclude({ ...answer, windows, ...(isSpent && { outcome: 'spent' }) })
      })
    }

    async function decideAlone(): Promise<Decision> {
      awaySince ??= now
      const pauseMs = now - awaySince < blipMs ? blipPausesMs[attempts++] : undefined
      if (isReserving && asker !== undefined && pauseMs !== undefined) {
        await pause(pauseMs)
        // What a lost answer holds is given back under the name that asked for it.
        asker = nameAsker()
        return ask(holds.hold, {}, conclude)
      }
      const isBrief = isReserving && now - awaySince < briefMs
      if (onLoss === 'deny' || isBrief) throw new ServiceError('counters_unavailable')
      const used = await counters.read(tokens, now)
      const { holdAlone } = holds
      if (isReserving && holdAlone !== undefined) return ask(holdAlone, {}, conclude)
      return decideCounted(holdAlone ?? holds.hold, used)
    }

    if (isReserving) return ask(holds.hold, {}, conclude)
    const used = counters.read(tokens, now)
    return used instanceof Promise
      ? used.then((late) => decideCounted(holds.hold, late))
      : decideCounted(holds.hold, used)
  }
}

/** Milliseconds; reports usually take less than ten. */
const waitsMs = [10, 20, 30, 40]
/** With more requests in progress the client is not one that waits for each answer. */
const fewOpen = 2

type Hold = HoldStore['hold']
type Asked = ReturnType<Hold>

/** Windows of tokens and then of what is taken, in the order of the limits. */
function toOrder(limits: readonly CountedLimit[], windows: Windows): Windows {
  let token = 0
  let other = limits.filter((limit) => !isTaken(limit)).length
  return limits.map((limit) => windows[isTaken(limit) ? other++ : token++] as CounterState)
}

/** Adds what a request is charged if its model reports less. */
export function createAppraise(estimators: Estimators) {
  return (grant: Grant, request: AccessRequest): Grant => {
    const { sized, estimate } = sizeUp(estimators, grant, request)
    const held = grant.held ?? { ...sized, admittedAt: 0, cap: Number.POSITIVE_INFINITY }
    return { ...grant, held: { ...held, estimate } }
  }
}

/** The sentence names the fields that may be the reason. */
function describeTooMuch({ choices = 1 }: RequestSize, least: number, most: number): string {
  if (least <= choices) {
    return `its ${choices} answers are more than the ${most} tokens that they may have together; ask for fewer (n, best_of, prompt)`
  }
  const each = choices > 1 ? `its ${choices} answers need` : 'it needs'
  return (
    `${each} ${least} tokens of output at least, by thinking.budget_tokens or min_tokens, and may have ` +
    `${most}; lower that field${choices > 1 ? ', or ask for fewer answers' : ''}`
  )
}

function sizeUp(estimators: Estimators, grant: Grant, request: AccessRequest) {
  const owner = ownerOf(grant.subscription, userInLines(grant.caller.user))
  const estimator = estimators.of(owner, grant.model.key)
  const sized = request.size?.() ?? unknownSize
  const hasOutput = !outputless.test(request.target.operation)
  const { maxTokens, honoursMaxTokens } = grant.model.resource.output ?? {}
  const expected = estimator.expect(sized, hasOutput ? maxTokens : 0, honoursMaxTokens)
  const bytesPerToken = hasOutput ? estimator.bytesPerToken : 0
  const estimate = { input: expected.input, bytesPerToken }
  return { sized, expected, estimate, defaultMs: estimator.defaultMs }
}

/** The operations whose body the gateway's script reads for its size and can give a ceiling, and those without output. */
const capped = /\/(chat\/completions|completions|responses|messages)$/
const outputless = /\/embeddings$/
const unknownSize: RequestSize = { bytes: undefined, maxOutput: undefined, choices: undefined }
/** For requests that hold no tokens. */
const nothing: Expected = {
  ...{ input: 0, inputVariance: 0, output: 0, outputVariance: 0 },
  ...{ floor: 0, beyondRoom: 0, isSeveral: false, least: 0, worst: 0 },
}
const unsized = { sized: unknownSize, expected: nothing, estimate: undefined } as const
const uncharged = { overshoot: 0, charge: 'end' } as const

/** The log of refusals: a line each, of every code only so many a second. */

import type { Logger } from 'pino'
import type { RefusedRequest } from '../admin/refusals.ts'
import type { Caller } from '../core/caller.ts'
import { describe, type ErrorCode } from '../core/errors.ts'
import { networkOf } from '../core/network.ts'
import { redact } from '../core/redact.ts'
import { traceIdOf } from '../core/trace-context.ts'
import type { RefusedCheck } from '../extauthz/service.ts'

export interface DenialLog {
  /** Told of each refusal of Check. */
  readonly check: (refused: RefusedCheck) => void
  /** Told of each refusal of the REST API. */
  readonly request: (refused: RefusedRequest) => void
  /** Says what has been left out so far; to be called at the end. */
  readonly flush: () => void
}

export interface DenialLogOptions {
  readonly log: Pick<Logger, 'info'>
  /** Lines of one code in a second. */
  readonly perSecond: number
  /** Milliseconds that never go back; `performance.now` unless told. */
  readonly monotonic?: () => number
}

interface Second {
  readonly startedAt: number
  written: number
  omitted: number
}

const secondMs = 1_000
/** Of what a client has written. */
const longestText = 256

export function createDenialLog(options: DenialLogOptions): DenialLog {
  const { log, perSecond, monotonic = () => performance.now() } = options
  const seconds = new Map<ErrorCode, Second>()
  let timer: NodeJS.Timeout | undefined

  /** Whether there is room for one more line of this code. */
  function admit(code: ErrorCode): boolean {
    const now = monotonic()
    let second = seconds.get(code)
    if (second === undefined || now - second.startedAt >= secondMs) {
      if (second !== undefined) tell(code, second)
      second = { startedAt: now, written: 0, omitted: 0 }
      seconds.set(code, second)
    }
    if (second.written < perSecond) {
      second.written += 1
      return true
    }
    second.omitted += 1
    timer ??= setTimeout(flush, secondMs).unref()
    return false
  }

  function tell(code: ErrorCode, second: Second): void {
    if (second.omitted > 0) log.info({ code, omitted: second.omitted }, 'refusals were not logged')
    second.omitted = 0
  }

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    for (const [code, second] of seconds) tell(code, second)
  }

  function write(
    code: ErrorCode,
    caller: Caller | null,
    address: string | undefined,
    more: object,
  ) {
    log.info(
      {
        code,
        status: describe(code).status,
        ...(caller !== null && { user: caller.user }),
        ...(caller?.by === 'key' && { keyId: caller.keyId }),
        ...more,
        ...(address !== undefined && { network: networkOf(address) }),
      },
      'request refused',
    )
  }

  return {
    check({ code, caller, model, subscription, source, requestId, traceparent }) {
      if (!admit(code)) return
      const paying = caller?.by === 'key' ? caller.subscription : clean(subscription)
      write(code, caller, source(), {
        ...(paying !== undefined && { subscription: paying }),
        ...(model !== undefined && { model: clean(model) }),
        request_id: clean(requestId()),
        trace_id: traceIdOf(traceparent),
      })
    },
    request({ code, caller, method, route, address, requestId, traceparent }) {
      if (!admit(code)) return
      write(code, caller, address, {
        method,
        route,
        request_id: requestId,
        trace_id: traceIdOf(traceparent),
      })
    },
    flush,
  }
}

/** A client's own text: of a bearable length, and without what looks like a secret. */
function clean(text: string | undefined): string | undefined {
  return text === undefined ? undefined : redact(text).slice(0, longestText)
}

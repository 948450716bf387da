/** The log of refusals: one line each, with a limit per code and second. */

import type { Logger } from 'pino'
import type { RefusedRequest } from '../decide/refused-request.ts'
import { networkOf } from '../formats/cidr.ts'
import { type ErrorCode, errorEntry } from '../formats/errors.ts'
import { traceIdOf } from '../formats/headers.ts'
import { redactForLog } from '../formats/redact.ts'
import type { Caller } from '../identity/rules/caller.ts'
import { namedBy } from './check-response.ts'
import type { RefusedCheck } from './refused-check.ts'

interface DenialLogOptions {
  readonly log: Pick<Logger, 'info'>
  /** Lines per code and second; 20 by default: enough for samples, and a flood fills no disk. */
  readonly perSecond?: number
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
}

interface Second {
  readonly startedAt: number
  written: number
  omitted: number
}

const secondMs = 1_000

export function createDenialLog(options: DenialLogOptions) {
  const { log, perSecond = 20, monotonic = () => performance.now() } = options
  const seconds = new Map<ErrorCode, Second>()
  let timer: NodeJS.Timeout | undefined

  /** Whether another line of this code is within the limit. */
  function admit(code: ErrorCode): boolean {
    const now = monotonic()
    let second = seconds.get(code)
    if (second === undefined || now - second.startedAt >= secondMs) {
      if (second !== undefined) logOmitted(code, second)
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

  function logOmitted(code: ErrorCode, second: Second): void {
    if (second.omitted > 0) log.info({ code, omitted: second.omitted }, 'refusals were not logged')
    second.omitted = 0
  }

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    for (const [code, second] of seconds) logOmitted(code, second)
  }

  function write(
    code: ErrorCode,
    status: number,
    caller: Caller | null,
    address: string | undefined,
    more: object,
  ) {
    log.info(
      {
        code,
        status,
        ...(caller !== null && { user: caller.user }),
        ...(caller?.by === 'key' && { keyId: caller.keyId }),
        ...more,
        ...(address !== undefined && { network: networkOf(address) }),
      },
      'request refused',
    )
  }

  return {
    /** Logs a refusal of Check. */
    check(refused: RefusedCheck): void {
      const { code, status, reason, caller, source, requestId: id, traceparent } = refused
      if (!admit(code)) return
      write(code, status, caller, source(), {
        ...(reason !== undefined && { reason: redactForLog(reason) }),
        ...namedBy(refused),
        request_id: id && redactForLog(id),
        trace_id: traceIdOf(traceparent),
      })
    },
    /** Logs a refusal of the REST API. */
    request(refused: RefusedRequest): void {
      const { code, caller, method, route, address, requestId, traceparent } = refused
      if (!admit(code)) return
      write(code, errorEntry(code).status, caller, address, {
        method,
        route,
        request_id: requestId,
        trace_id: traceIdOf(traceparent),
      })
    },
    /** Logs the number of omitted lines; call it on shutdown. */
    flush,
  }
}

/** The gateway's gRPC services: Check, the access log, the rate limit service. */

import type { Decision } from '../core/decision/decide.ts'
import type { Usage } from '../core/decision/usage.ts'
import type { Outcome } from '../core/status/model-failure.ts'
import type { RefusedCheck } from '../extauthz/refused-check.ts'
import { createAppraise, createReserve } from '../extauthz/reserve.ts'
import { createCheck } from '../extauthz/service.ts'
import { traceCheck, traceDecisions } from '../extauthz/traced.ts'
import { createUncountedLog } from '../extauthz/uncounted-log.ts'
import { createGrpcServer, type GrpcServer } from '../grpc/server.ts'
import { readUsages } from '../ratelimit/access-log.ts'
import { createShouldRateLimit } from '../ratelimit/rate-limit.ts'
import type { ListenerTls } from '../tls/listener-tls.ts'
import type { Context } from './context.ts'
import type { Parts } from './parts.ts'

/**
 * A server of these parts that does not listen yet. `onReported` is called when the stream has reported a
 * response.
 */
export function createGatewayServer(
  { config, log, clock, onFault }: Context,
  parts: Parts,
  { tls, onReported }: { readonly tls: ListenerTls | undefined; readonly onReported: () => void },
): GrpcServer {
  const { tracing, discovery, authenticate, counterParts, telemetry, settle, held, health } = parts
  const { counters } = counterParts
  const onRefused = (refused: RefusedCheck): void => {
    parts.refusals.check(refused)
    parts.pastRefusals.note(refused)
    parts.ledger?.onRefused(refused.denial, refused.now)
  }
  const noteUncounted = createUncountedLog(config.paths, (path, setting) => {
    const message = `tokens of ${path} are not counted; METER_PATHS=${setting} counts them`
    log.warn({ path }, message)
  })
  const onDecided = (decision: Decision, model: string | undefined): void => {
    telemetry.onDecided(decision, model)
    noteUncounted(decision)
  }
  const onOutcome = (outcome: Outcome): void => {
    health.note(outcome)
    telemetry.onEnded(outcome)
  }
  const check = telemetry.timed(
    createCheck({
      authenticate,
      snapshot: discovery.snapshot,
      counters: { read: tracing.waiting('redis', counters.read) },
      reserve: createReserve({ ...counterParts, onLoss: config.onCounterLoss }),
      appraise: config.chargeUnreported ? createAppraise(counterParts.estimators) : undefined,
      paths: config.paths,
      tokensOpen: config.tokensOpenInference,
      trustedHops: config.gatewayTrustedHops,
      openListing: parts.keyParts.listingSeal.open,
      clock,
      ...traceDecisions(tracing, { onDecided, onRefused }),
      onFault,
    }),
  )
  const onRunning = (usage: Usage): void => held.follow(usage, clock())
  const listeners = { onOutcome, onUnmetered: held.release, onRunning }
  const isJournaled = config.usageJournal !== undefined
  return createGrpcServer({
    unary: {
      '/envoy.service.auth.v3.Authorization/Check': traceCheck(tracing, check),
      '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit': createShouldRateLimit({
        settle,
        onIgnored: (reason) => log.warn({ reason }, 'reported usage is not counted'),
      }),
    },
    clientStreaming: {
      '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs': (message) => {
        for (const usage of readUsages(message, isJournaled, listeners)) {
          settle(usage)
          onReported()
        }
      },
    },
    onFault,
    tls: tls?.demanding,
    hopMark: config.hopMark,
  })
}

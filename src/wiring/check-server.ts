/** The gateway's gRPC service: Check. */

import { type CheckDeps, createCheck } from '../extauthz/check.ts'
import { createLimitEnforcer } from '../extauthz/check-limits.ts'
import { traceCheck, traceDecisions } from '../extauthz/check-spans.ts'
import type { RefusedCheck } from '../extauthz/refused-check.ts'
import { createUncountedLog } from '../extauthz/uncounted-log.ts'
import { createGrpcServer, type GrpcServer } from '../grpc/server.ts'
import type { ListenerTls } from '../tls/listener-tls.ts'
import type { Context } from './context.ts'
import { createEarlierEnvoyLog } from './earlier-envoy.ts'
import type { ServiceParts } from './parts.ts'

/** A server of these parts that does not listen yet. */
export function createCheckServer(
  { config, log, clock, onFault }: Context,
  parts: ServiceParts,
  tls: ListenerTls | undefined,
): GrpcServer {
  const { tracing, discovery, authenticate, counterParts, estimators, telemetry, table } = parts
  const { counters, holds, sums } = counterParts
  const onRefused = (refused: RefusedCheck): void => {
    parts.refusals.check(refused)
    parts.pastRefusals.note(refused)
    parts.ledger?.onRefused(refused.denial, refused.now)
  }
  const noteUncounted = createUncountedLog(config.paths, (path, setting) => {
    const message = `tokens of ${path} are not counted; to count them, set METER_PATHS=${setting}`
    log.warn({ code: 'calls_uncounted', path }, message)
  })
  const onDecided: CheckDeps['onDecided'] = (decision, model, call) => {
    telemetry.onDecided(decision, model)
    noteUncounted(decision)
    // From now on a line is due. A request whose body is unread is not admitted yet: Envoy asks about it again.
    if (sums === undefined || !decision.allowed || !decision.metered || decision.isUnread) return
    sums.noteAllowed()
    call?.whenReset(sums.noteLeft)
  }
  const check = telemetry.timed(
    createCheck({
      authenticate,
      snapshot: discovery.snapshot,
      limits: createLimitEnforcer({
        counters: { read: tracing.waiting('redis', counters.read) },
        increases: parts.keyParts.increases,
        holding: { holds, estimators, onLoss: config.onCounterLoss },
        charging: { estimators, isAlways: config.chargeUnreported },
      }),
      paths: config.paths,
      tokensOpen: config.tokensOpenInference,
      trustedHops: config.gatewayTrustedHops,
      openListing: parts.listingSeal.open,
      clock,
      ...traceDecisions(tracing, { onDecided, onRefused }),
      table: table.isOn ? table : undefined,
      onMissed: telemetry.onMissed,
      onFault,
    }),
  )
  return createGrpcServer({
    unary: { '/envoy.service.auth.v3.Authorization/Check': traceCheck(tracing, check) },
    onUnknown: createEarlierEnvoyLog(log),
    onFault,
    tls: tls?.demanding,
    hopMark: config.hopMark,
  })
}

/** The REST APIs: the external one, and the internal one for operators. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createIsAdmin } from '../admin/http/administrators.ts'
import { createRequestLimit } from '../admin/http/request-limit.ts'
import { addressOf } from '../admin/http/trusted-proxies.ts'
import { createAskGateway } from '../admin/models/ask-gateway.ts'
import { createProbeModel, type ProbeModel } from '../admin/models/model-probe.ts'
import { buildAdmin, buildInternal } from '../admin/server.ts'
import { serveConsole } from '../console/console.ts'
import { localHost, showAddress } from '../core/formats/address.ts'
import { networkOf } from '../core/formats/network.ts'
import { createReserve } from '../extauthz/reserve.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { createLineLimit } from '../runtime/line-limit.ts'
import type { Config } from '../settings/config.ts'
import { withOpenRequests } from '../store/holds/read-counters.ts'
import { withWaits } from '../telemetry/tracing.ts'
import type { ListenerTls, ServerTls } from '../tls/listener-tls.ts'
import type { Context } from './context.ts'
import type { Parts } from './parts.ts'
import { openSimulation } from './simulation.ts'
import { type Condition, createServiceState, degradedParts, isReady } from './state.ts'

/** The external API, not listening yet. */
export function createExternalApi(
  context: Context,
  parts: Parts,
  tls: ListenerTls | undefined,
  condition: Condition,
): FastifyInstance {
  const { config, log, audit, clock } = context
  const { tracing, keyParts, discovery, tokens, markers, authenticate, telemetry, refusals } = parts
  const { counterParts, pastRefusals, othersRefusals, resources } = parts
  const app = buildAdmin({
    onAnswered: telemetry.onApiAnswered,
    keys: withWaits(tracing, 'database', keyParts.keys),
    openSpan: tracing.open,
    propagation: keyParts.propagation.wait,
    idempotency: keyParts.idempotency,
    snapshot: discovery.snapshot,
    clock,
    log,
    audit,
    hopMark: config.hopMark,
    onRefused: refusals.request,
    authenticate,
    trustedProxies: config.trustedProxies ?? [],
    rate: config.apiRateLimit,
    addressRate: config.apiAddressRateLimit,
    // Access to a Unix socket depends on its mode.
    tls: 'path' in config.apiAddress ? undefined : tls?.plain,
    readCounters: withOpenRequests(counterParts.counters.readFresh, counterParts.holds),
    reserve: createReserve({
      ...counterParts,
      counters: { read: counterParts.counters.readFresh },
      onLoss: config.onCounterLoss,
      isDry: true,
    }),
    resetCounters: counterParts.counters.reset,
    paths: config.paths,
    pastRefusals,
    othersRefusals,
    usage: parts.ledger?.reader,
    simulate: openSimulation(config, parts.database),
    locate: resources.locate,
    ...describeResources(parts),
    serviceState: createServiceState(context, parts, condition),
    isAdmin: createIsAdmin(config.adminGroups, tokens.mayAdminister),
    keyMarker: config.keyMarker,
    markers,
    maxExpirationDays: config.maxExpirationDays,
    // Leaves connections for look-ups and revocations, which never wait for searches.
    searchesAtOnce: Math.max(1, Math.floor(config.databaseConnections / 5)),
    probeModel: openProbes(context),
    onServed: discovery.note,
    gatewayUrl: config.gatewayUrl,
    accessCheckTimeoutMs: config.accessCheckTimeoutSeconds * 1_000,
    instanceName: config.instanceName,
    billingCurrency: config.billingCurrency,
  })
  const { codeFlows } = tokens
  const { gatewayUrl, apiAddressRateLimit } = config
  const exchanges = apiAddressRateLimit && createRequestLimit(apiAddressRateLimit)
  const waitOf = (request: FastifyRequest): number =>
    exchanges?.take(networkOf(addressOf(request)), clock()) ?? 0
  app.register(async (scope) => serveConsole(scope, { codeFlows, gatewayUrl, waitOf }))
  return app
}

/** Milliseconds between two lines about a gateway that cannot be reached. */
const quietMs = 30_000

/** GATEWAY_URL may lead to another pod, or be out of reach of this one: it is not used here. */
function openProbes({ config, log, clock }: Context): ProbeModel {
  const { gatewayAddress, gatewayTlsCertFile: certFile } = config
  const at = { host: localHost(gatewayAddress.host), port: gatewayAddress.port }
  const lines = createLineLimit(quietMs)
  return createProbeModel({
    askGateway: createAskGateway({ ...at, certFile }),
    onUnreachable(error) {
      if (lines.pass('', clock()) === undefined) return
      log.warn(
        { gateway: showAddress(at), problem: errorMessage(error) },
        'the gateway cannot be reached, so models are not listed: GATEWAY_ADDRESS',
      )
    },
  })
}

/** What both APIs say about resources besides what is in force. */
function describeResources({ health, resources, discovery }: Parts) {
  return {
    backendOf: health.stateOf,
    resourceProblems: () => [...resources.problems(), ...discovery.problems()],
    enforcement: resources.enforcement,
  }
}

/** Access to a Unix socket depends on its mode. */
export function internalTls(
  { internalAddress }: Config,
  tls: ListenerTls | undefined,
): ServerTls | undefined {
  return 'path' in internalAddress ? undefined : tls?.asking
}

/** The internal API, not listening yet. */
export function createInternalApi(
  { config, log, audit, clock }: Context,
  parts: Parts,
  tls: ListenerTls | undefined,
  condition: Condition,
): FastifyInstance {
  const { keyParts, discovery, markers } = parts
  const asking = internalTls(config, tls)
  return buildInternal({
    onAnswered: parts.telemetry.onApiAnswered,
    keys: keyParts.keys,
    markers,
    clock,
    log,
    audit,
    hopMark: config.hopMark,
    onRefused: parts.refusals.request,
    snapshot: discovery.snapshot,
    ready: () => isReady(condition),
    gatewayDrain: condition.gatewayDrain,
    degraded: () => degradedParts(parts, condition),
    tls: asking,
    asksCallers: asking !== undefined && tls?.asksCallers === true,
    ...describeResources(parts),
    noteUse: keyParts.noteUse,
  })
}

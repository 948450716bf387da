/** The REST APIs: the external one, and the internal one for operators. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { OperatorDeps } from '../admin/deps.ts'
import { createIsAdmin } from '../admin/http/administrators.ts'
import { createRequestLimit, enforceWait } from '../admin/http/request-limit.ts'
import { addressOf } from '../admin/http/trusted-proxies.ts'
import { createGatewayClient } from '../admin/models/gateway-client.ts'
import { createProbeModel, type ProbeModel } from '../admin/models/model-probe.ts'
import { buildAdmin, buildInternal } from '../admin/server.ts'
import type { GatewayDrain } from '../cluster/rules/gateway-drain.ts'
import { serveConsole } from '../console/console.ts'
import { refuseForeignHosts } from '../console/sample-sign-in.ts'
import { createLimitEnforcer } from '../extauthz/check-limits.ts'
import { formatAddress, loopbackIfWildcard } from '../formats/address.ts'
import { networkOf } from '../formats/cidr.ts'
import { listBytes, readListWithin } from '../gateway/list-allowance.ts'
import type { ListingSeal } from '../identity/listing-seal.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { createLineLimit } from '../runtime/line-limit.ts'
import type { Config } from '../settings/config.ts'
import { withWaits } from '../telemetry/tracing.ts'
import type { ListenerTls, ServerTls } from '../tls/listener-tls.ts'
import { readPastSums } from '../usage/ledger/postgres/state.ts'
import { createSimulator } from '../usage/ledger/simulation.ts'
import { createLimitRequests } from '../usage/limit-requests/postgres-limit-requests.ts'
import type { Context } from './context.ts'
import type { ServiceParts } from './parts.ts'
import type { State } from './state.ts'

/** Inputs of the APIs besides the parts. */
interface Condition {
  readonly state: State
  readonly gatewayDrain: GatewayDrain
}

/** The external API, not listening yet. */
export function createExternalApi(
  context: Context,
  parts: ServiceParts,
  tls: ListenerTls | undefined,
  { state }: Condition,
): FastifyInstance {
  const { config, clock } = context
  const { tracing, keyParts, discovery, tokens, markers, authenticate } = parts
  const { counterParts, pastRefusals, othersRefusals, resources } = parts
  const { usageJournal: path, usageArchiveDir: folder, dataDir } = config
  const kept = { path, dataDir, folder }
  const app = buildAdmin({
    ...context,
    ...config,
    markers,
    authenticate,
    pastRefusals,
    othersRefusals,
    ...sharedDeps(context, parts),
    openSpan: tracing.open,
    keys: withWaits(tracing, 'database', keyParts.keys),
    propagation: keyParts.propagation.wait,
    whenIncreased: keyParts.propagation.waitForIncreases,
    idempotency: keyParts.idempotency,
    rate: config.apiRateLimit,
    addressRate: config.apiAddressRateLimit,
    // Access to a Unix socket depends on its mode.
    tls: 'path' in config.apiAddress ? undefined : tls?.plain,
    readCounters: counterParts.counters.readFresh,
    limits: createLimitEnforcer({
      counters: { read: counterParts.counters.readFresh },
      increases: keyParts.increases,
      holding: {
        holds: counterParts.holds,
        estimators: parts.estimators,
        onLoss: config.onCounterLoss,
        isDry: true,
      },
    }),
    resetCounters: counterParts.counters.reset,
    increases: keyParts.increases,
    limitRequests: createLimitRequests(parts.database.pool, config.notifyUrl !== undefined),
    tableCondition() {
      // Processes other than the gateway's writer do not know whether the table is open.
      if (!parts.table.isOn) return 'off'
      return parts.table.stats()?.isOpen === false ? 'closed' : 'open'
    },
    usage: parts.ledger?.reader,
    simulate: createSimulator(
      kept,
      config.unusableUsage,
      (...span) => readPastSums(parts.database.pool, ...span),
      config.admissionMode,
    ),
    locate: resources.locate,
    serviceState: state.read,
    isAdmin: createIsAdmin(config.adminGroups, tokens.mayAdminister),
    // Leaves connections for look-ups and revocations, which never wait for searches.
    searchesAtOnce: Math.max(1, Math.floor(config.databaseConnections / 5)),
    probeModel: openProbes(context, parts.listingSeal),
    onServed: discovery.note,
    accessCheckTimeoutMs: config.accessCheckTimeoutMs,
  })
  const { codeFlows } = tokens
  const { gatewayUrl, apiAddressRateLimit, sampleSignInCode: sampleCode } = config
  if (sampleCode !== undefined) refuseForeignHosts(app)
  const exchanges = apiAddressRateLimit && createRequestLimit(apiAddressRateLimit)
  const from = (request: FastifyRequest): string => networkOf(addressOf(request))
  const countAttempt = (request: FastifyRequest, reply: FastifyReply): void =>
    enforceWait(reply, exchanges?.take(from(request), clock()))
  app.register(async (scope) =>
    serveConsole(scope, {
      codeFlows,
      gatewayUrl,
      countAttempt,
      sampleCode,
      networkOf: from,
      ownIssuer: config.oidcIssuerUrl,
      displayNames: config.oidcDisplayNames,
      keepsToken: config.consoleKeepsToken,
    }),
  )
  return app
}

/** Milliseconds between two lines about a gateway that cannot be reached. */
const quietMs = 30_000

/** GATEWAY_URL is not used: it may lead to another pod, or be unreachable from this one. */
function openProbes({ config, log, clock }: Context, seal: ListingSeal): ProbeModel {
  const { gatewayAddress, gatewayTlsCertFile: certFile } = config
  const at = { host: loopbackIfWildcard(gatewayAddress.host), port: gatewayAddress.port }
  const lines = createLineLimit(quietMs)
  const allowance = { left: listBytes }
  return createProbeModel({
    askGateway: createGatewayClient({ ...at, certFile }),
    readWithin: (response, read) => readListWithin(allowance, response, read),
    seal: (address, authorization) => seal.close(address, authorization, clock()),
    onUnreachable(error) {
      if (lines.pass('', clock()) === undefined) return
      log.warn(
        { code: 'gateway_unreachable', gateway: formatAddress(at), problem: errorMessage(error) },
        'cannot list models: the gateway at GATEWAY_ADDRESS does not respond',
      )
    },
  })
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
  context: Context,
  parts: ServiceParts,
  tls: ListenerTls | undefined,
  { state, gatewayDrain, metricsAddress }: Condition & Pick<OperatorDeps, 'metricsAddress'>,
): FastifyInstance {
  const { keyParts, markers } = parts
  const asking = internalTls(context.config, tls)
  return buildInternal({
    ...context,
    ...sharedDeps(context, parts),
    markers,
    gatewayDrain,
    keys: keyParts.keys,
    noteUse: keyParts.noteUse,
    metricsAddress,
    ready: state.isReady,
    degraded: state.degraded,
    tls: asking,
    asksCallers: asking !== undefined && tls?.asksCallers === true,
  })
}

/** Dependencies of both APIs. */
function sharedDeps({ config }: Context, parts: ServiceParts) {
  return {
    hopMark: config.hopMark,
    onResponse: parts.telemetry.onApiResponse,
    onRefused: parts.refusals.request,
    snapshot: parts.discovery.snapshot,
    backendOf: parts.health.stateOf,
    resourceProblems: parts.resources.problems,
    enforcement: parts.resources.enforcement,
  }
}

/** The parts that every process of the service has: callers, resources, counters and metrics. */

import { createOthersRefusals } from '../cluster/shared-refusals.ts'
import { traceKey } from '../extauthz/check-spans.ts'
import { createDenialLog } from '../extauthz/denial-log.ts'
import { createRefusalMemory } from '../extauthz/refusal-memory.ts'
import { listBytes } from '../gateway/list-allowance.ts'
import { requestServedModels } from '../gateway/server-list.ts'
import { createAuthenticator, createKeyVerifier } from '../identity/authenticate.ts'
import { createListingSeal } from '../identity/listing-seal.ts'
import { createModelHealth } from '../models/model-health.ts'
import { createNameDiscovery, type NameDiscovery } from '../models/names/name-discovery.ts'
import { shareLearnedSums } from '../ratelimit/estimates/share-learned-sums.ts'
import { createEstimators, type Estimators } from '../ratelimit/rules/estimates/estimators.ts'
import { resetsChannel } from '../ratelimit/sums/postgres-resets.ts'
import { timedStop } from '../runtime/stops.ts'
import { startNotificationListener } from '../store/postgres/listener.ts'
import { untilAvailable } from '../store/postgres/until-available.ts'
import { readSharedSecret } from '../store/shared-secret.ts'
import type { ProcessTable } from '../table/process-table.ts'
import { createHoldFollower } from '../usage/hold-follower.ts'
import { createLineSettler } from '../usage/settle.ts'
import { createWriterListeners } from '../usage/writer-listeners.ts'
import type { Context } from './context.ts'
import { type Counters, openCounters } from './counters.ts'
import { type Database, openDatabase } from './database.ts'
import { startKeyCleanup } from './key-cleanup.ts'
import { openKeys } from './keys.ts'
import { openLedger } from './ledger.ts'
import { startNotices } from './notices.ts'
import { openPods } from './pods.ts'
import { openResources, type Resources } from './resources.ts'
import { createTable } from './table.ts'
import { openTelemetry } from './telemetry.ts'
import { openTokens } from './tokens.ts'
import { openTracing, startExport } from './tracing.ts'

export type ServiceParts = Awaited<ReturnType<typeof openParts>>

/** Opens them in order of their dependencies. */
export async function openParts(context: Context) {
  const { config, log, clock, stops } = context
  const tracing = openTracing(config)
  const table = createTable(context)
  const database = await openDatabase(context)
  const keyParts = await openKeys(context, database, table, openPods(context, database))
  const secret = await untilAvailable(() => readSharedSecret(database.pool, 'listing'), context)
  const endingSoon = startKeyCleanup(context, database, keyParts)
  const resources = await openResources(context, database, keyParts, table)
  // The resources in force, with the names that model servers list.
  const discovery = openServedNames(context, resources, table)
  // Markers of keys: our own, and others that are accepted.
  const markers = { own: config.keyMarker, accepted: config.acceptedMarkers }
  const tokens = openTokens(context, resources, tracing)
  const verifyKey = createKeyVerifier(keyParts.keys, markers, keyParts.noteUse)
  const authenticate = createAuthenticator({
    key: traceKey(tracing, tracing.waiting('database', verifyKey)),
    token: tokens.verify,
  })
  const estimators = createEstimators()
  startSharing(context, database, estimators, resources)
  const ledger = openLedger(context, database)
  // Reading of lines starts last, so that every part that processes lines gets each of them.
  const counters = (): Counters => counterParts
  const telemetry = openTelemetry(context, {
    ...keyParts,
    ...resources,
    endingSoon,
    ledger,
    counters,
    table,
    identity: tokens.figures,
  })
  const health = createModelHealth({ snapshot: discovery.snapshot, log, clock })
  const settle = createLineSettler({
    holds: createHoldFollower({
      snapshot: resources.snapshot,
      estimators,
      holds: {
        release: (...ended) => counterParts.holds.release(...ended),
        renew: (...running) => counterParts.holds.renew(...running),
      },
    }),
    clock,
    all: { onEnded: health.note },
    writer: createWriterListeners({
      health,
      metrics: telemetry,
      noteUse: startNotices(context, database, counters, resources, keyParts),
      noteKeyUse(keyId, at) {
        const hash = table.hashOf(keyId)
        if (hash !== undefined) keyParts.noteUse(hash, at)
      },
      log,
    }),
  })
  const counterParts = await openCounters(context, database, resources, settle, ledger, table)
  ledger?.start(counterParts.isWriter)
  await startExport(context, telemetry)
  const refusals = createDenialLog({ log })
  stops.push(refusals.flush)
  const pastRefusals = createRefusalMemory()
  const own = { id: keyParts.follower.id, own: pastRefusals }
  const othersRefusals = startNotifications(context, database, own, counterParts)
  return {
    table,
    tracing,
    database,
    keyParts,
    listingSeal: createListingSeal(secret),
    resources,
    discovery,
    tokens,
    markers,
    authenticate,
    counterParts,
    estimators,
    telemetry,
    ledger,
    refusals,
    health,
    pastRefusals,
    othersRefusals,
  }
}

/** Notifications between the processes of a database, on one connection, until the service stops. */
function startNotifications(
  { clock, onFault, stops }: Context,
  { pool, url }: Database,
  own: Pick<Parameters<typeof createOthersRefusals>[0], 'id' | 'own'>,
  { resets }: Pick<Counters, 'resets'>,
) {
  const othersRefusals = createOthersRefusals({ ...own, sql: pool, clock, onFault })
  const listener = startNotificationListener({
    url,
    channels: [...othersRefusals.channels, resetsChannel],
    onNotification(notification) {
      if (notification === undefined || notification.channel === resetsChannel) resets?.ring()
      else othersRefusals.hear(notification)
    },
  })
  stops.push(listener.stop)
  return othersRefusals
}

/** How long a server may take to list its models; milliseconds. */
const askMs = 2_000

/** Asks the servers of models without ids of their own. */
function openServedNames(
  { config, log, onFault, stops }: Context,
  { snapshot, latest, readSecret }: Pick<Resources, 'snapshot' | 'latest' | 'readSecret'>,
  table: Pick<ProcessTable, 'beginAnew'>,
): NameDiscovery {
  const { backendCaFile: caFile, hopMark } = config
  const shared = { readSecret, allowance: { left: listBytes } }
  const discovery = createNameDiscovery({
    snapshot,
    latest,
    log,
    onFault,
    onNames: table.beginAnew,
    ask: (ref) =>
      requestServedModels(ref, { ...shared, caFile, hopMark, signal: AbortSignal.timeout(askMs) }),
  })
  stops.push(() => discovery.close())
  return discovery
}

/** Shares the estimators' averages with other processes until the service stops, while anything may be estimated. */
function startSharing(
  { config, onFault, stops }: Context,
  { pool }: Database,
  estimators: Estimators,
  { snapshot }: Pick<Resources, 'snapshot'>,
): void {
  const isNeeded = () => config.chargeUnreported || mayEstimate(snapshot())
  const sharing = shareLearnedSums({ sql: pool, estimators, isNeeded, onFault })
  stops.push(timedStop('what was learned', sharing.stop))
}

/**
 * Whether requests may be estimated: to reserve, or under limits on cost, which only models with prices have. Keys may
 * have such limits of their own, too.
 */
export function mayEstimate({ subscriptions }: ReturnType<Resources['snapshot']>): boolean {
  for (const { admission, terms } of subscriptions.values()) {
    if (admission) return true
    for (const { tariff } of terms.values()) if (tariff?.isPriced) return true
  }
  return false
}

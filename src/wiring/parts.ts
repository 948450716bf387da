/** The parts that every process of the service has: callers, resources, counters and metrics. */

import { traceKey } from '../extauthz/check-spans.ts'
import { createDenialLog } from '../extauthz/denial-log.ts'
import { createRefusalMemory } from '../extauthz/refusal-memory.ts'
import { createAuthenticate, createVerifyKey } from '../identity/authenticate.ts'
import { createListingSeal } from '../identity/listing-seal.ts'
import { createModelHealth } from '../models/model-health.ts'
import { createEstimators } from '../ratelimit/rules/estimates/estimators.ts'
import { untilAvailable } from '../store/postgres/until-available.ts'
import { readSharedSecret } from '../store/shared-secret.ts'
import type { Context } from './context.ts'
import { type Counters, openCounters } from './counters.ts'
import { openDatabase } from './database.ts'
import { startSharing } from './estimates.ts'
import { startKeyCleanup } from './key-cleanup.ts'
import { openKeys } from './keys.ts'
import { openLedger } from './ledger.ts'
import { startNotifications } from './notifications.ts'
import { openPods } from './pods.ts'
import { openResources } from './resources.ts'
import { openServedNames } from './served-names.ts'
import { openSettle, startNotices } from './settle.ts'
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
  const verifyKey = createVerifyKey(keyParts.keys, markers, keyParts.noteUse)
  const authenticate = createAuthenticate({
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
  const settle = openSettle(context, {
    snapshot: resources.snapshot,
    estimators,
    health,
    metrics: telemetry,
    holds: {
      release: (...ended) => counterParts.holds.release(...ended),
      renew: (...running) => counterParts.holds.renew(...running),
    },
    noteUse: startNotices(context, database, counters, resources, keyParts),
    noteKeyUse(keyId, at) {
      const hash = table.hashOf(keyId)
      if (hash !== undefined) keyParts.noteUse(hash, at)
    },
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

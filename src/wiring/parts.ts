/** What every process of the service has: it knows callers, resources, counters, and what it tells. */

import type { KeyMarkers } from '../core/api-key.ts'
import { createVerifyKey } from '../identity/api-key.ts'
import { type Authenticate, createAuthenticate } from '../identity/authenticate.ts'
import type { Journal } from '../ratelimit/journal/journal.ts'
import type { Settle } from '../ratelimit/settle.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { Tracing } from '../telemetry/tracing.ts'
import type { Context } from './context.ts'
import { type Counters, openCounters } from './counters.ts'
import { type Database, openDatabase } from './database.ts'
import { createDenialLog, type DenialLog } from './denial-log.ts'
import { type Keys, openKeys } from './keys.ts'
import { createModelHealth, type ModelHealth } from './model-health.ts'
import { openResources, type Resources } from './resources.ts'
import { type Learner, openServedNames } from './served-names.ts'
import { openTelemetry } from './telemetry.ts'
import { openTokens, type Tokens } from './tokens.ts'
import { openTracing, startExport, traceKey } from './tracing.ts'
import { openSettle } from './usage.ts'
import type { Workers } from './workers/workers.ts'

export interface Parts {
  readonly tracing: Tracing
  readonly database: Database
  readonly keyParts: Keys
  readonly resources: Resources
  /** The resources in force, with the names that model servers list. */
  readonly learner: Learner
  readonly tokens: Tokens
  /** Of keys: our own, and those accepted beside it. */
  readonly markers: KeyMarkers
  readonly authenticate: Authenticate
  readonly counterParts: Counters
  readonly telemetry: Telemetry
  readonly settle: Settle
  readonly refusals: DenialLog
  readonly health: ModelHealth
}

/** What is built of these parts, and that they tell of; asked only once everything has been built. */
export interface Later {
  readonly journal: () => Journal | undefined
  readonly workers: () => Workers | undefined
}

/** Opens them, the ones that others ask first. */
export async function openParts(context: Context, later: Later): Promise<Parts> {
  const { config, log, clock, stops, parent } = context
  const tracing = openTracing(config)
  const database = await openDatabase(context)
  const keyParts = await openKeys(context, database)
  const resources = await openResources(context, database, keyParts)
  const learner = openServedNames(context, database, resources)
  const markers = { own: config.keyMarker, accepted: config.acceptedMarkers }
  const tokens = openTokens(context, resources, tracing)
  const authenticate = createAuthenticate({
    key: traceKey(tracing, createVerifyKey(keyParts.keys, markers, keyParts.noteUse)),
    token: tokens.verify,
  })
  const counterParts = await openCounters(context)
  const telemetry = openTelemetry(context, {
    ...keyParts,
    ...counterParts,
    ...resources,
    ...later,
    identity: tokens.figures,
  })
  await startExport(context, telemetry)
  const settle = openSettle(context, counterParts, resources, telemetry)
  const refusals = createDenialLog({ log, perSecond: config.refusalLinesPerSecond })
  stops.push(refusals.flush)
  const health = createModelHealth({
    snapshot: learner.snapshot,
    log,
    clock,
    ...(parent && { onChange: (model, state) => parent.tell('backend', model, state) }),
  })
  return {
    ...{ tracing, database, keyParts, resources, learner, tokens, markers, authenticate },
    ...{ counterParts, telemetry, settle, refusals, health },
  }
}

/** The dependencies of routes; each route takes only some. */

import type { FastifyBaseLogger } from 'fastify'
import type { BackendState } from '../cluster/rules/conditions.ts'
import type { Enforcement } from '../cluster/rules/enforcement.ts'
import type { GatewayDrain } from '../cluster/rules/gateway-drain.ts'
import type { AccessRequest } from '../decide/access-request.ts'
import type { Decision, Grant } from '../decide/decision.ts'
import type { PastRefusals, PeerRefusals } from '../decide/past-refusal.ts'
import type { SocketAddress } from '../formats/address.ts'
import type { Idempotency } from '../keys/idempotency.ts'
import type { PropagationWatch } from '../keys/revocations/propagation.ts'
import type { KeyMarkers } from '../keys/rules/api-key.ts'
import type { KeyReach } from '../keys/rules/caps-of-caller.ts'
import type { ApiKeyStore } from '../keys/store.ts'
import type { ServedModel } from '../models/rules/model-list.ts'
import type { Model, Snapshot } from '../models/rules/snapshot.ts'
import type { PathRules } from '../operations/operations.ts'
import type { ResettableCounters } from '../ratelimit/counters.ts'
import type { ActiveIncreases } from '../ratelimit/increases/active-increases.ts'
import type { Simulate } from '../usage/ledger/simulation.ts'
import type { LimitRequests } from '../usage/limit-requests/limit-requests.ts'
import type { UsageReader } from '../usage/store.ts'
import type { TableCondition } from './explain/explain-table.ts'
import type { Locate } from './explain/resource-place.ts'
import type { IsAdmin } from './http/administrators.ts'
import type { ProbeModel } from './models/model-probe.ts'

/** For both listeners. */
export interface SharedDeps {
  readonly keys: ApiKeyStore
  readonly markers: KeyMarkers
  readonly snapshot: () => Snapshot
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** How the last request to a model's server ended. */
  readonly backendOf?: (model: string) => BackendState | undefined
  /** Problems that the source of the resources has found, one sentence each. */
  readonly resourceProblems: () => readonly string[]
  /** The state of each model, here and in all processes that may be serving. */
  readonly enforcement: () => Promise<Enforcement>
}

/** For the external API. */
export interface ExternalDeps extends SharedDeps {
  readonly isAdmin: IsAdmin
  readonly keyMarker: string
  /** MAX_KEYS_PER_USER; 0 for no limit. */
  readonly maxKeysPerUser: number
  /** API_KEY_REACH. */
  readonly keyReach: KeyReach
  /** API_KEY_MAX_EXPIRATION_DAYS; the Tenant's takes precedence. */
  readonly maxExpirationDays: number
  readonly idempotency: Pick<Idempotency, 'claim' | 'release'>
  /** Waits, for a limited time, until every replica has applied a revocation; never rejects. */
  readonly propagation: PropagationWatch['wait']
  /** Likewise for every change of increases. */
  readonly whenIncreased: PropagationWatch['waitForIncreases']
  /**
   * Maximum number of concurrent searches and queries of all callers; the store's other connections are for everything
   * else.
   */
  readonly searchesAtOnce: number
  /** Undefined if there is no ledger. */
  readonly usage: UsageReader | undefined
  /** The currency of rates per token, and so of costs; ISO 4217. */
  readonly billingCurrency: string
  /** The issuer of charges, and part of the names of service-account groups. */
  readonly instanceName: string
  readonly simulate: Simulate
  readonly readCounters: ResettableCounters['readFresh']
  readonly resetCounters: ResettableCounters['reset']
  readonly increases: ActiveIncreases
  readonly limitRequests: LimitRequests
  /** As for Check, but it holds nothing. */
  readonly limits: (
    grant: Grant,
    request: AccessRequest,
    now: number,
  ) => Decision | Promise<Decision>
  readonly paths: PathRules
  /** INFERENCE_WITH_IDENTITY_TOKENS. */
  readonly tokensOpenInference: boolean
  /** Whether Envoy decides by earlier grants without asking, to this process's knowledge. */
  readonly tableCondition: () => TableCondition
  readonly pastRefusals: PastRefusals
  readonly othersRefusals: PeerRefusals
  /** Where a resource is written. */
  readonly locate: Locate
  readonly probeModel: ProbeModel
  /** Public base URL of the gateway, without a trailing slash. */
  readonly gatewayUrl: string
  /** Called with the list of a model's server; waits until the names can be used. */
  readonly onServed?: (model: Model, served: readonly ServedModel[]) => void
  /** Timeout of a whole list of models; those that have not responded by then are left out. */
  readonly accessCheckTimeoutMs: number
}

/** For the internal listener. */
export interface OperatorDeps extends SharedDeps {
  readonly log: FastifyBaseLogger
  readonly gatewayDrain: GatewayDrain
  /** Address of the metrics, or undefined if METRICS_ADDRESS is off. */
  readonly metricsAddress?: SocketAddress | undefined
  /** Whether requests may be sent here: resources loaded, not draining. */
  readonly ready: () => boolean
  /** Names of unavailable parts; a degraded process should still get requests. */
  readonly degraded: () => Promise<readonly string[]>
  /** Records that the secret with this hash was found valid (contract, 3.10). */
  readonly noteUse?: (hash: string, now: number) => void
}

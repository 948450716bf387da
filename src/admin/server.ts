/** The two HTTP listeners, built but not listening yet: the external API and the internal one. */

import { isFromWebPage } from '../formats/page-request.ts'
import type { ExternalDeps, OperatorDeps } from './deps.ts'
import { explainRequests } from './explain/explain.ts'
import { getMe } from './get-me.ts'
import type { Api, SchemaTypes } from './http/api.ts'
import { type CallerDeps, requireCaller } from './http/authenticate-api.ts'
import { requireCertificate } from './http/client-certificate.ts'
import { sendError } from './http/error-handler.ts'
import { createListener, type ListenerDeps } from './http/listener.ts'
import { describeApi } from './http/openapi.ts'
import { requireAdministrator } from './http/require-administrator.ts'
import { increaseRoutes } from './increases/increases.ts'
import { limitDecisionRoutes, limitRequestRoutes } from './increases/limit-requests.ts'
import { bulkRevokeApiKeys } from './keys/bulk-revoke-api-keys.ts'
import { changeApiKey } from './keys/change-api-key.ts'
import { cleanupApiKeys } from './keys/cleanup-api-keys.ts'
import { createApiKey } from './keys/create-api-key.ts'
import { getApiKey } from './keys/get-api-key.ts'
import { getApiKeyConfig } from './keys/key-config.ts'
import { revokeApiKey } from './keys/revoke-api-key.ts'
import { revokeGivenKey } from './keys/revoke-given-key.ts'
import { rotateApiKey } from './keys/rotate-api-key.ts'
import { searchApiKeys } from './keys/search-api-keys.ts'
import { validateApiKey } from './keys/validate-api-key.ts'
import { listModels } from './models/list-models.ts'
import { listSubscriptions } from './models/list-subscriptions.ts'
import { lookUpTier } from './models/lookup-tier.ts'
import { selectSubscription } from './models/select-subscription.ts'
import { drainGateway } from './operation/drain-gateway.ts'
import { listAccess } from './operation/list-access.ts'
import { listOwnRefusals, listRefusals } from './operation/list-refusals.ts'
import { listResources, listResourcesToAdmins } from './operation/list-resources.ts'
import { logLevelRoutes } from './operation/log-level.ts'
import { healthRoute, probeRoutes } from './operation/probes.ts'
import { readState, type ServiceStateDeps } from './operation/read-state.ts'
import { counterRoutes } from './usage/counters.ts'
import { listLimitsOfCaller } from './usage/limits.ts'
import { listSharedLimits } from './usage/shared-limits.ts'
import { simulateResources } from './usage/simulate.ts'
import { getUsage } from './usage/usage.ts'

export interface AdminDeps extends ListenerDeps, ExternalDeps, ServiceStateDeps, CallerDeps {}

interface InternalDeps extends ListenerDeps, OperatorDeps {
  /** Whether callers must have a certificate; probes, addresses and drain requests need none. */
  readonly asksCallers?: boolean
}

/** The external API: `/v1/…` and `/health`. */
export function buildAdmin(deps: AdminDeps): Api {
  const app = createListener(deps).withTypeProvider<SchemaTypes>()
  describeApi(app)
  app.register(async (scope) => healthRoute(scope))
  app.register(async (scope) => {
    requireCaller(scope, deps)
    createApiKey(scope, deps)
    getApiKey(scope, deps)
    revokeApiKey(scope, deps)
    revokeGivenKey(scope, deps)
    searchApiKeys(scope, deps)
    listModels(scope, deps)
    listSubscriptions(scope, deps)
    lookUpTier(scope, deps)
    bulkRevokeApiKeys(scope, deps)
    changeApiKey(scope, deps)
    rotateApiKey(scope, deps)
    getApiKeyConfig(scope, deps)
    getMe(scope, deps)
    explainRequests(scope, deps)
    listOwnRefusals(scope, deps)
    getUsage(scope, deps)
    scope.register(async (inner) => {
      requireAdministrator(inner, deps)
      listResourcesToAdmins(inner, deps)
      listRefusals(inner, deps)
      readState(inner, deps)
      listAccess(inner, deps)
      listSharedLimits(inner, deps)
      increaseRoutes(inner, deps)
      limitDecisionRoutes(inner, deps)
      simulateResources(inner, deps)
    })
    listLimitsOfCaller(scope, deps)
    limitRequestRoutes(scope, deps)
    counterRoutes(scope, deps)
  })
  return app
}

/** The internal listener, to which no route of the gateway leads. */
export function buildInternal(deps: InternalDeps): Api {
  const app = createListener(deps).withTypeProvider<SchemaTypes>()
  app.addHook('onRequest', async ({ headers }, reply) => {
    const message = 'Pages in a browser may not call this listener.'
    const { address } = (app.server.address() ?? {}) as { address?: string }
    if (isFromWebPage(headers, address)) return sendError(reply, 'local_only', message)
  })
  probeRoutes(app, deps)
  drainGateway(app, deps)
  app.register(async (scope) => {
    if (deps.asksCallers) requireCertificate(scope)
    listResources(scope, deps)
    selectSubscription(scope, deps)
    validateApiKey(scope, deps)
    cleanupApiKeys(scope, deps)
    logLevelRoutes(scope, deps)
  })
  return app
}

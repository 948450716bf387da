/** The verifiers of identity tokens: a file, OIDC providers, the cluster. */

import { createTokenVerifier } from '../identity/identity-token.ts'
import { openClusterIdentity } from '../identity/kubernetes/cluster-identity.ts'
import { openOidcProviders } from '../identity/oidc/configured-providers.ts'
import { createRefusalLog } from '../identity/refusal-log.ts'
import { type FindTokenCaller, noTokenFile, openTokenFile } from '../identity/token-file.ts'
import { createIdentityCounts } from '../telemetry/identity-counts.ts'
import type { Tracing } from '../telemetry/tracing.ts'
import type { Context } from './context.ts'
import type { Resources } from './resources.ts'

export function openTokens(
  context: Context,
  { snapshot }: Pick<Resources, 'snapshot'>,
  tracing: Tracing,
) {
  const refusals = createRefusalLog(context)
  const counts = createIdentityCounts()
  const cluster = openClusterIdentity(context, refusals, counts.onAccessReviewed)
  const oidc = openOidcProviders(context, () => snapshot().tenant?.externalOidc, refusals)
  return {
    verify: createTokenVerifier({
      file: openFile(context),
      oidc(issuer) {
        const verify = oidc.find(issuer)
        return verify && tracing.waiting('identity provider', verify)
      },
      cluster: cluster && tracing.waiting('API server', cluster.tokens.verify),
      onProved(by, result) {
        counts.onProved(by, result)
        if (by === 'none')
          refusals.note({ proof: by }, 'no configured source of identity tokens accepts it')
      },
    }),
    /** Administrators by the cluster's roles, or undefined if the cluster is not used. */
    mayAdminister: cluster && tracing.waiting('API server', cluster.mayAdminister),
    codeFlows: oidc.codeFlows,
    figures: counts.figures,
    /** The unavailable verifiers, under their names in `/readyz`. */
    degraded: (): readonly string[] => [
      ...(oidc.isUnavailable() ? ['oidc'] : []),
      ...(cluster?.tokens.isUnavailable ? ['kubernetes'] : []),
    ],
  }
}

function openFile({ config, log, stops }: Context): FindTokenCaller {
  if (config.tokenAuthFile === undefined) return noTokenFile
  try {
    const file = openTokenFile(config.tokenAuthFile, (problem) =>
      log.warn(
        { code: 'token_file_invalid', problem },
        'TOKEN_AUTH_FILE is unreadable, or has invalid lines or none',
      ),
    )
    stops.push(() => file.close())
    return file.verify
  } catch (error) {
    throw new Error(`TOKEN_AUTH_FILE: cannot read ${config.tokenAuthFile}`, { cause: error })
  }
}

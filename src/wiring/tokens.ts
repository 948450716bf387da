/** What proves identity tokens: a file, OIDC providers, the cluster. */

import type { Verify, VerifyNow } from '../identity/authenticate.ts'
import { createVerifyToken } from '../identity/identity-token.ts'
import { noTokens, openTokenFile } from '../identity/token-file.ts'
import type { Context } from './context.ts'
import { openOidc } from './oidc.ts'
import type { Resources } from './resources.ts'

export interface Tokens {
  readonly verify: Verify
  /** Which of what proves tokens is out of reach, as `/readyz` calls it. */
  readonly degraded: () => readonly string[]
}

export function openTokens(context: Context, { snapshot }: Pick<Resources, 'snapshot'>): Tokens {
  const oidc = openOidc(context, () => snapshot().tenant?.externalOidc)
  return {
    verify: createVerifyToken({ file: openFile(context), oidc: oidc.find, cluster: undefined }),
    degraded: () => (oidc.isAway() ? ['oidc'] : []),
  }
}

function openFile({ config, log, stops }: Context): VerifyNow {
  if (config.tokenAuthFile === undefined) return noTokens
  try {
    const file = openTokenFile(config.tokenAuthFile, (problem) => log.warn({ problem }, 'tokens'))
    stops.push(() => file.close())
    return file.verify
  } catch (error) {
    throw new Error(`TOKEN_AUTH_FILE: can not read ${config.tokenAuthFile}`, { cause: error })
  }
}

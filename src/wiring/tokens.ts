/** Identity tokens from a file, where one is set. */

import { noTokens, openTokenFile } from '../identity/token-file.ts'
import type { Context } from './context.ts'

export function openTokens({ config, log, stops }: Context): typeof noTokens {
  if (config.tokenAuthFile === undefined) return noTokens
  try {
    const file = openTokenFile(config.tokenAuthFile, (problem) => log.warn({ problem }, 'tokens'))
    stops.push(() => file.close())
    return file.verify
  } catch (error) {
    throw new Error(`TOKEN_AUTH_FILE: can not read ${config.tokenAuthFile}`, { cause: error })
  }
}

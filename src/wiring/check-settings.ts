/** Tests at the start what the settings name, so that all problems are reported at once. */

import { readFileSync } from 'node:fs'
import { checkEnvoyFiles } from '../gateway/envoy-files.ts'
import { parseAuthenticationConfiguration } from '../identity/oidc/authentication-configuration.ts'
import { attempt, checkFiles, checkSockets } from '../settings/check-files.ts'
import type { Config } from '../settings/config.ts'
import { checkTls } from '../tls/listener-tls.ts'
import { tlsSettings } from './listener-tls.ts'

/** `NAME: what is wrong` for each setting of the service whose file or folder cannot be used. */
export function checkSettings(config: Config): readonly string[] {
  const tls = tlsSettings(config)
  return [
    ...checkFiles(config),
    ...checkProviders(config),
    ...(tls === undefined ? [] : checkTls(tls)),
    ...(config.envoyConfigWrite ? checkEnvoyFiles(config) : checkSockets(config)),
  ]
}

/**
 * A file of providers that is invalid at the start; one that becomes invalid later keeps its last
 * content.
 */
function checkProviders({ oidcProvidersFile: path, oidcIssuerUrl }: Config): readonly string[] {
  let broken: readonly string[] = []
  const unread = attempt('OIDC_PROVIDERS_FILE', path, 'read', (file) => {
    const issuers = oidcIssuerUrl === undefined ? [] : [oidcIssuerUrl]
    broken = parseAuthenticationConfiguration(readFileSync(file, 'utf8'), issuers).broken
  })
  return [...unread, ...broken.map((problem) => `OIDC_PROVIDERS_FILE: ${path}, ${problem}`)]
}

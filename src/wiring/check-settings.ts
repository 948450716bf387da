/** Checks at the start the files and folders that settings name, to report all problems at once. */

import { readFileSync } from 'node:fs'
import { checkCertificate, checkEnvoyFiles } from '../gateway/envoy-files.ts'
import { parseAuthenticationConfiguration } from '../identity/oidc/authentication-configuration.ts'
import { attempt, checkFiles, checkSockets } from '../settings/check-files.ts'
import type { Config } from '../settings/config.ts'
import { checkTls, problemOf, readCertificates } from '../tls/listener-tls.ts'
import { tlsSettings } from './listener-tls.ts'

/** `NAME: what is wrong` for each setting of the service whose file or folder cannot be used. */
export function checkSettings(config: Config): readonly string[] {
  return [
    ...checkFiles(config),
    ...checkAuthorities('BACKEND_CA_FILE', config.backendCaFile),
    ...checkAuthorities('OIDC_CA_FILE', config.oidcCaFile),
    ...checkProviders(config),
    ...checkListenerTls(config),
    ...(config.envoyConfigWrite
      ? checkEnvoyFiles(config)
      : [
          ...checkSockets(config),
          ...checkAuthorities('GATEWAY_TLS_CERT_FILE', config.gatewayTlsCertFile),
        ]),
  ]
}

function checkAuthorities(setting: string, path: string | undefined): readonly string[] {
  return path === undefined ? [] : problemOf(() => readCertificates(setting, path))
}

/** `checkSettings` for the certificates of the service's listeners and of Envoy only. */
export function checkCertificates(config: Config): readonly string[] {
  return [...checkListenerTls(config), ...checkCertificate(config)]
}

function checkListenerTls(config: Config): readonly string[] {
  const tls = tlsSettings(config)
  return tls === undefined ? [] : checkTls(tls)
}

/** A file of providers that is invalid at the start; one that becomes invalid later keeps its last content. */
function checkProviders({ oidcProvidersFile: path, oidcIssuerUrl }: Config): readonly string[] {
  let broken: readonly string[] = []
  const unread = attempt('OIDC_PROVIDERS_FILE', path, 'read', (file) => {
    const issuers = oidcIssuerUrl === undefined ? [] : [oidcIssuerUrl]
    broken = parseAuthenticationConfiguration(readFileSync(file, 'utf8'), issuers).broken
  })
  return [...unread, ...broken.map((problem) => `OIDC_PROVIDERS_FILE: ${path}, ${problem}`)]
}

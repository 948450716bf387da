/**
 * Envoy's files besides the clusters, from the settings: used by `tollgate envoy-config`, `tollgate up`, and in a pod.
 */

import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { journalFilesOf } from '../journal/journal-files.ts'
import { fileModeOf, prepareFolder } from '../journal/prepare-folder.ts'
import { replaceFile } from '../runtime/replace-file.ts'
import { checkSockets } from '../settings/check-files.ts'
import type { Config } from '../settings/config.ts'
import {
  fillBootstrapTemplate,
  findAuthorities,
  isHostName,
  renderCertificate,
} from './bootstrap.ts'
import { parseBootstrapTemplate, readBootstrapTemplate } from './bootstrap-template.ts'
import { clustersFile, noClusters, writeClusters } from './clusters.ts'

/**
 * The texts of `bootstrap.json` in ENVOY_CONFIG_DIR, and of `certificate.json`, which names the listener's certificate;
 * undefined if it uses plain HTTP.
 */
export function renderEnvoyFiles(config: Config) {
  const { gatewayTlsCertFile: cert, gatewayTlsKeyFile: key, envoyConfigDir } = config
  const certificate =
    cert === undefined || key === undefined ? undefined : renderCertificate(cert, key)
  const bootstrap = fillBootstrapTemplate(parseBootstrapTemplate(readBootstrapTemplate()), {
    gateway: config.gatewayAddress,
    admin: config.envoyAdminAddress,
    hopMark: config.hopMark,
    grpc: config.gatewayGrpcEndpoints,
    api: config.gatewayApiEndpoints,
    clustersFile: join(envoyConfigDir, clustersFile),
    lines: config.usageJournal === undefined ? undefined : journalFilesOf(config.usageJournal),
    authoritiesFile: config.backendCaFile ?? findAuthorities(),
    bodyLimit: config.bodyLimit,
    bodyTimeoutMs: config.bodyTimeoutMs,
    allowedOrigins: config.allowedOrigins,
    headersToModels: config.headersToModels,
    chargesUnusable: config.unusableUsage === 'estimate',
    heapBytes: config.envoyHeapBytes,
    tracing: config.otel?.gateway,
    trustsTraces: config.traceTrustClients,
    trustedHops: config.gatewayTrustedHops,
    certificateFile: certificate && certificatePath(config),
  })
  return { bootstrap, certificate }
}

/**
 * Writes these files, and what Envoy does not start without: an empty list of clusters if the service has not written
 * one, and the journal's folder with its files. Returns the path of `bootstrap.json`.
 */
export async function writeEnvoyFiles(config: Config): Promise<string> {
  const { envoyConfigDir, usageJournal, envoyAdminAddress: admin } = config
  const { bootstrap, certificate } = renderEnvoyFiles(config)
  mkdirSync(envoyConfigDir, { recursive: true })
  if ('path' in admin) mkdirSync(dirname(admin.path), { recursive: true })
  if (usageJournal !== undefined) {
    prepareFolder(journalFilesOf(usageJournal), fileModeOf(config.socketMode))
  }
  if (certificate !== undefined) await replaceFile(certificatePath(config), certificate)
  if (!existsSync(join(envoyConfigDir, clustersFile))) {
    await writeClusters(envoyConfigDir, noClusters)
  }
  const path = join(envoyConfigDir, 'bootstrap.json')
  await replaceFile(path, bootstrap, { mode: bootstrapMode(config) })
  return path
}

/** The collector's headers usually contain a credential; Envoy may run as another user of the group. */
function bootstrapMode({ otel, socketMode }: Config): number {
  if (otel?.gateway?.headers === undefined) return 0o644
  return fileModeOf(socketMode) === 0o600 ? 0o600 : 0o640
}

function certificatePath({ envoyConfigDir }: Config): string {
  return join(envoyConfigDir, 'certificate.json')
}

/**
 * `NAME: what is wrong` for settings with which Envoy could not listen, or would have no service to
 * call.
 */
export function checkEnvoyFiles(config: Config): readonly string[] {
  const endpoints = [...config.gatewayGrpcEndpoints, ...config.gatewayApiEndpoints]
  if (endpoints.some((endpoint) => 'port' in endpoint && endpoint.port === 0)) {
    return ['GATEWAY_GRPC_ENDPOINTS: name the ports, here and in GATEWAY_API_ENDPOINTS']
  }
  return [...checkSockets(config), ...checkListeners(config), ...checkCertificate(config)]
}

/** `NAME: what is wrong` for a certificate and a key that do not match. */
export function checkCertificate(config: Config): readonly string[] {
  const { gatewayTlsCertFile: cert, gatewayTlsKeyFile: key } = config
  if (cert === undefined || key === undefined) return []
  try {
    createSecureContext({ cert: readFileSync(cert), key: readFileSync(key) })
    return []
  } catch (error) {
    return [`GATEWAY_TLS_CERT_FILE: cannot be used with the key (${(error as Error).message})`]
  }
}

/** `NAME: what is wrong` for names at which Envoy cannot listen. */
export function checkListeners({ gatewayAddress, envoyAdminAddress }: Config): readonly string[] {
  return Object.entries({ GATEWAY_ADDRESS: gatewayAddress, ENVOY_ADMIN_ADDRESS: envoyAdminAddress })
    .filter(
      ([, address]) => isHostName(address) && 'host' in address && address.host !== 'localhost',
    )
    .map(([name]) => `${name}: Envoy listens at an IP address: that of an interface, or 0.0.0.0`)
}

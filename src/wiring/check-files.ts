/**
 * Settings that name files and folders, tried at the start: what cannot be used is told beside the
 * other bad settings, and not by the part that meets it.
 */

import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { Config } from '../config.ts'
import { parseAuthenticationConfiguration } from '../identity/oidc/authentication-configuration.ts'
import { checkTls } from '../tls/listener-tls.ts'
import { checkEnvoyFiles } from './envoy-files.ts'
import { tlsSettings } from './listener-tls.ts'

/** `NAME: what is wrong` for each setting of a service whose file or folder cannot be used. */
export function checkFiles(config: Config): readonly string[] {
  const { resourceFolder, tokenAuthFile, usageJournal, dataDir, envoyConfigDir } = config
  const { revocationLogDir } = config
  const ownFolder = relative(dataDir, envoyConfigDir).startsWith('..')
  const ownLog = revocationLogDir !== dataDir
  const needsDataDir = config.databaseUrl === undefined || !ownFolder || !ownLog
  return [
    ...attempt('RESOURCES', resourceFolder, 'read', readdirSync),
    ...attempt('SECRETS_DIR', config.secretsDir, 'read', readdirSync),
    ...attempt('BACKEND_CA_FILE', config.backendCaFile, 'read', readFileSync),
    ...attempt('TOKEN_AUTH_FILE', tokenAuthFile, 'read', readFileSync),
    ...checkProviders(config),
    ...attempt('OIDC_CA_FILE', config.oidcCaFile, 'read', readFileSync),
    ...checkTlsFiles(config),
    ...(needsDataDir ? checkDataDir(config) : []),
    ...(ownFolder ? attempt('ENVOY_CONFIG_DIR', envoyConfigDir, 'written to', tryFolder) : []),
    ...(ownLog ? attempt('REVOCATION_LOG_DIR', revocationLogDir, 'written to', tryFolder) : []),
    ...attempt('USAGE_JOURNAL', usageJournal, 'written', tryJournal),
    ...checkAuditLog(config),
    ...(config.envoyConfigWrite ? checkEnvoyFiles(config) : []),
  ]
}

/** A file of providers that is broken from the start; one that breaks later stays as it was. */
function checkProviders({ oidcProvidersFile: path, oidcIssuerUrl }: Config): readonly string[] {
  const setting = 'OIDC_PROVIDERS_FILE'
  let broken: readonly string[] = []
  const unread = attempt(setting, path, 'read', (path) => {
    const issuers = oidcIssuerUrl === undefined ? [] : [oidcIssuerUrl]
    broken = parseAuthenticationConfiguration(readFileSync(path, 'utf8'), issuers).broken
  })
  return [...unread, ...broken.map((problem) => `${setting}: ${path}, ${problem}`)]
}

function checkTlsFiles(config: Config): readonly string[] {
  const settings = tlsSettings(config)
  return settings === undefined ? [] : checkTls(settings)
}

/** The same of DATA_DIR alone, for commands that need no more. */
export function checkDataDir({ dataDir }: Config): readonly string[] {
  return attempt('DATA_DIR', dataDir, 'written to', tryFolder)
}

/** The same of AUDIT_LOG alone. */
export function checkAuditLog({ auditLog }: Config): readonly string[] {
  return attempt('AUDIT_LOG', auditLog === 'stdout' ? undefined : auditLog, 'written', tryAudit)
}

function attempt(
  setting: string,
  path: string | undefined,
  use: string,
  act: (path: string) => unknown,
): readonly string[] {
  try {
    if (path !== undefined) act(path)
    return []
  } catch (error) {
    return [`${setting}: ${path} cannot be ${use} (${(error as NodeJS.ErrnoException).code})`]
  }
}

/** Makes the folder where it is missing, and a file in it: rights alone say nothing to root. */
function tryFolder(folder: string, mode = 0o777): void {
  makeFolder(folder, mode)
  const file = join(folder, `.tollgate-${process.pid}`)
  writeFileSync(file, '')
  rmSync(file)
}

/** The journal says who used what, so its folder is for us alone. */
function tryJournal(path: string): void {
  tryFolder(dirname(path), 0o700)
  if (isFolder(path)) throw refusal('EISDIR')
}

/** It says who did what, so its folder is for us alone where we make it. */
function tryAudit(path: string): void {
  makeFolder(dirname(path), 0o700)
  closeSync(openSync(path, 'a', 0o600))
}

/** Node's own `recursive` never returns where a folder cannot be made in one that is there: /proc. */
function makeFolder(folder: string, mode: number): void {
  const found = isFolder(folder)
  if (found === false) throw refusal('ENOTDIR')
  if (found) return
  makeFolder(dirname(folder), mode)
  try {
    mkdirSync(folder, { mode })
  } catch (error) {
    // Another process may have made it just now.
    if (!isFolder(folder)) throw error
  }
}

/** undefined: there is nothing. */
function isFolder(path: string): boolean | undefined {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory()
}

function refusal(code: string): Error {
  return Object.assign(new Error(code), { code })
}

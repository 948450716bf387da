/**
 * Tests the files and folders of the settings at the start, so that unusable ones are reported together with other
 * invalid settings, before any component needs them.
 */

import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { formatAddress } from '../formats/address.ts'
import { fileModeOf, folderModeOf } from '../journal/prepare-folder.ts'
import { isFolder, makeFolder } from '../runtime/make-folder.ts'
import type { Config } from './config.ts'

/** `NAME: <problem>` for each setting of the service whose file or folder cannot be used. */
export function checkFiles(config: Config): readonly string[] {
  const { resourceFolder, tokenAuthFile, usageJournal, dataDir, envoyConfigDir } = config
  const { revocationLogDir } = config
  const ownFolder = relative(dataDir, envoyConfigDir).startsWith('..')
  const ownLog = revocationLogDir !== dataDir
  const needsDataDir = config.databaseUrl === undefined || !ownFolder || !ownLog
  return [
    ...attempt('RESOURCES', resourceFolder, 'read', readdirSync),
    ...attempt('SECRETS_DIR', config.secretsDir, 'read', readdirSync),
    ...attempt('TOKEN_AUTH_FILE', tokenAuthFile, 'read', tryFollowed),
    ...(needsDataDir ? checkDataDir(config) : []),
    ...(ownFolder ? attempt('ENVOY_CONFIG_DIR', envoyConfigDir, 'written to', tryFolder) : []),
    ...(ownLog ? attempt('REVOCATION_LOG_DIR', revocationLogDir, 'written to', tryFolder) : []),
    ...attempt('USAGE_JOURNAL', usageJournal, 'written', (path) => tryJournal(path, config)),
    // Archives contain user names, so their folder is private.
    ...attempt('USAGE_ARCHIVE_DIR', config.usageArchiveDir, 'written to', (path) =>
      tryFolder(path, 0o700),
    ),
    ...checkAuditLog(config),
  ]
}

/** The problems of DATA_DIR alone, for commands that need only that. */
export function checkDataDir({ dataDir }: Config): readonly string[] {
  return attempt('DATA_DIR', dataDir, 'written to', tryFolder)
}

/** The problems of the folders that `tollgate envoy-config --write` writes to. */
export function checkEnvoyFolders(config: Config): readonly string[] {
  const { dataDir, envoyConfigDir, usageJournal } = config
  return [
    ...(relative(dataDir, envoyConfigDir).startsWith('..')
      ? attempt('ENVOY_CONFIG_DIR', envoyConfigDir, 'written to', tryFolder)
      : checkDataDir(config)),
    ...attempt('USAGE_JOURNAL', usageJournal, 'written', (path) => tryJournal(path, config)),
  ]
}

/** The problems of AUDIT_LOG alone. */
export function checkAuditLog({ auditLog }: Config): readonly string[] {
  return attempt('AUDIT_LOG', auditLog === 'stdout' ? undefined : auditLog, 'written', tryAudit)
}

/** The longest path of a Unix socket in bytes: 108 on Linux and 104 on macOS and the BSDs, with a NUL. */
const maxSocketLength = process.platform === 'linux' ? 107 : 103

/** The problems of the sockets to listen on; the default of Envoy's admin page depends on DATA_DIR. */
export function checkSockets(config: Config): readonly string[] {
  const sockets = [
    ['API_ADDRESS', config.apiAddress],
    ['INTERNAL_ADDRESS', config.internalAddress],
    ...config.grpcAddresses.map((address) => ['GRPC_ADDRESS', address] as const),
    ['ENVOY_ADMIN_ADDRESS', config.envoyAdminAddress],
  ] as const
  return sockets.flatMap(([setting, address]) => {
    const length = 'path' in address ? Buffer.byteLength(address.path) : 0
    if (length <= maxSocketLength) return []
    return `${setting}: ${formatAddress(address)} has ${length} bytes, but the path of a socket has at most ${maxSocketLength}; set a shorter path, or a shorter DATA_DIR`
  })
}

/** `<setting>: <path> cannot be <use> (<code>)` if `act` throws; nothing without a path. */
export function attempt(
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

/** A file that is read again: a pipe (`<(…)` of a shell) would have nothing for the second reader. */
function tryFollowed(path: string): void {
  if (statSync(path).isFIFO())
    throw Object.assign(new Error('FIFO'), { code: 'a pipe can be read only once' })
  readFileSync(path)
}

/** Creates the folder if missing, and a file in it: permissions alone mean nothing for root. */
function tryFolder(folder: string, mode = 0o777): void {
  makeFolder(folder, mode)
  // Processes in several containers share folders, and have the same number there.
  const file = join(folder, `.tollgate-${randomUUID()}`)
  writeFileSync(file, '')
  rmSync(file, { force: true })
}

/** The gateway's user uses the folder, too. */
function tryJournal(path: string, { socketMode }: Config): void {
  const folder = dirname(path)
  if (isFolder(folder) === undefined) {
    const mode = folderModeOf(fileModeOf(socketMode))
    makeFolder(folder, mode)
    // Regardless of the umask.
    chmodSync(folder, mode)
  }
  tryFolder(folder)
  if (isFolder(path)) throw Object.assign(new Error('EISDIR'), { code: 'EISDIR' })
}

/** The trail contains user names, so a folder that we create is private. */
function tryAudit(path: string): void {
  makeFolder(dirname(path), 0o700)
  closeSync(openSync(path, 'a', 0o600))
}

/**
 * TLS for our listeners, with the current certificate and key files. A server uses a new certificate for new
 * connections only.
 */

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import {
  createSecureContext,
  type SecureContextOptions,
  type SecureVersion,
  type Server,
  type TlsOptions,
} from 'node:tls'
import { watchFiles } from '../runtime/watch-files.ts'

/** The settings; file names are absolute paths. */
export interface TlsSettings {
  readonly certFile: string
  readonly keyFile: string
  /** Authorities of callers' certificates; callers need none if undefined. */
  readonly clientCaFile?: string | undefined
  readonly minVersion: '1.2' | '1.3'
}

/** TLS of one server. */
export interface ServerTls {
  /** Options for creating the server. */
  readonly options: TlsOptions
  /** Updates the certificate for the server's new connections. */
  follow(server: Server): void
}

export type ListenerTls = ReturnType<typeof openListenerTls>

interface ListenerTlsOptions {
  /** Called when new files are in force, with the certificate's expiry in RFC 3339. */
  readonly onRead: (validTo: string) => void
  /** Called when the files cannot be used; the previous ones stay in force. */
  readonly onProblem: (problem: string) => void
  /** Milliseconds between two checks of the files. */
  readonly everyMs?: number
}

interface Material extends SecureContextOptions {
  readonly cert: string
  readonly key: string
  readonly ca?: string
  readonly minVersion: SecureVersion
}

const defaultEveryMs = 1_000
/** Timeout for a connection that sends nothing, or its handshake slowly. */
const handshakeTimeoutMs = 5_000
const pemCertificate = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Reads the files and checks them every second. Throws an error that begins with the setting's name. */
export function openListenerTls(
  settings: TlsSettings,
  { onRead, onProblem, everyMs = defaultEveryMs }: ListenerTlsOptions,
) {
  const paths = [settings.certFile, settings.keyFile, settings.clientCaFile].filter(
    (path) => path !== undefined,
  )
  const servers = new Map<Server, boolean>()
  let material = readMaterial(settings)
  /** The files at the last check, those that are in force, and those that were reported. */
  let seen = ''
  let used = ''
  let reported = ''
  onRead(validToOf(material.cert))

  function onState(now: string): void {
    if (now === used) return
    try {
      const read = readMaterial(settings)
      used = now
      if (JSON.stringify(read) === JSON.stringify(material)) return
      material = read
      for (const [server, asks] of servers) server.setSecureContext(contextFor(asks))
      onRead(validToOf(read.cert))
    } catch (error) {
      // Two files are not replaced at the same instant, so a problem must persist for two checks. It may
      // be of this process, such as too many open files, so they are read again until they can be used.
      if (now === seen && now !== reported) {
        reported = now
        onProblem((error as Error).message)
      }
      seen = now
    }
  }

  function contextFor(asks: boolean): SecureContextOptions {
    const { ca, ...own } = material
    return asks && ca !== undefined ? { ...own, ca } : own
  }

  function serverTls(asks: boolean, options: TlsOptions): ServerTls {
    return {
      get options() {
        return { ...contextFor(asks), handshakeTimeout: handshakeTimeoutMs, ...options }
      },
      follow(server) {
        servers.set(server, asks)
        server.once('close', () => servers.delete(server))
        // The files may have changed since the server was created.
        server.setSecureContext(contextFor(asks))
      },
    }
  }

  const asksCallers = settings.clientCaFile !== undefined
  const watch = watchFiles(paths, everyMs, onState)
  return {
    /** For a server that needs no certificates of callers. */
    plain: serverTls(false, {}),
    /** For a server that asks for a certificate and checks it itself. */
    asking: serverTls(true, { requestCert: asksCallers, rejectUnauthorized: false }),
    /** For a server that requires a valid certificate, if authorities are configured. */
    demanding: serverTls(true, { requestCert: asksCallers, rejectUnauthorized: asksCallers }),
    /** Whether callers must have a certificate. */
    asksCallers,
    close: watch.close,
  }
}

/** The problems of the files, each beginning with the setting's name. */
export function checkTls(settings: TlsSettings): readonly string[] {
  const files = [readCert, readKey, readClientCa].flatMap((each) => problemOf(() => each(settings)))
  return files.length > 0 ? files : problemOf(() => readMaterial(settings))
}

/** What `act` throws, if it does. */
export function problemOf(act: () => unknown): string[] {
  try {
    act()
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}

function readCert({ certFile }: TlsSettings): string {
  return readCertificates('TLS_CERT_FILE', certFile)
}

function readKey({ keyFile }: TlsSettings): string {
  const key = read('TLS_KEY_FILE', keyFile)
  const isEncrypted = key.includes('ENCRYPTED')
  if (key.includes('PRIVATE KEY-----') && !isEncrypted) return key
  const problem = isEncrypted
    ? 'is encrypted: use one without a passphrase'
    : 'holds no private key in PEM'
  throw new Error(`TLS_KEY_FILE: ${keyFile} ${problem}`)
}

/** Node replaces an empty list of authorities by the default ones, which would accept any client. */
function readClientCa({ clientCaFile }: TlsSettings): string | undefined {
  return clientCaFile && readCertificates('TLS_CLIENT_CA_FILE', clientCaFile)
}

function readMaterial(settings: TlsSettings): Material {
  const { certFile, keyFile, minVersion } = settings
  const own = { cert: readCert(settings), key: readKey(settings) }
  const ca = readClientCa(settings)
  const material = { ...own, minVersion: `TLSv${minVersion}` as const, ...(ca && { ca }) }
  try {
    createSecureContext(material)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const problem =
      code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH'
        ? `is not the key of ${certFile}`
        : `cannot be used with ${certFile} (${code})`
    throw new Error(`TLS_KEY_FILE: ${keyFile} ${problem}`, { cause: error })
  }
  return material
}

/** Their text. Throws an error that begins with the setting's name. */
export function readCertificates(setting: string, path: string): string {
  const text = read(setting, path)
  const found = text.match(pemCertificate) ?? []
  try {
    for (const one of found) new X509Certificate(one)
    if (found.length > 0) return text
  } catch {
    // Reported below.
  }
  throw new Error(`${setting}: ${path} holds no certificate in PEM, or one that cannot be read`)
}

function read(setting: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(`${setting}: ${path} cannot be read (${code})`, { cause: error })
  }
}

function validToOf(cert: string): string {
  return new X509Certificate(cert).validToDate.toISOString()
}

/**
 * TLS of our own listeners: certificate and key as their files are now. A server takes a new one for
 * its next connection; those that are open go on with theirs.
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
import { watchFiles } from '../files/watch-files.ts'

/** The settings, of which those of the files are absolute paths. */
export interface TlsSettings {
  readonly certFile: string
  readonly keyFile: string
  /** Authorities of callers' certificates; undefined: callers show none. */
  readonly clientCaFile?: string | undefined
  readonly minVersion: '1.2' | '1.3'
}

/** TLS of one server. */
export interface ServerTls {
  /** What the server is made with. */
  readonly options: TlsOptions
  /** Its new connections have what the files hold by then. */
  follow(server: Server): void
}

export type ListenerTls = ReturnType<typeof openListenerTls>

export interface ListenerTlsOptions {
  /** New files are in force; the certificate's end in RFC 3339. */
  readonly onRead: (validTo: string) => void
  /** The files can't be used; those before stay in force. */
  readonly onProblem: (problem: string) => void
  /** Milliseconds between two looks at the files. */
  readonly everyMs?: number
}

interface Material extends SecureContextOptions {
  readonly cert: string
  readonly key: string
  readonly ca?: string
  readonly minVersion: SecureVersion
}

const usualEveryMs = 1_000
/** Of a connection that has sent nothing yet, or its first bytes slowly. */
const handshakeTimeoutMs = 5_000
const pemCertificate = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Reads the files and looks at them every second. Throws with the setting's name in front. */
export function openListenerTls(
  settings: TlsSettings,
  { onRead, onProblem, everyMs = usualEveryMs }: ListenerTlsOptions,
) {
  const paths = [settings.certFile, settings.keyFile, settings.clientCaFile].filter(
    (path) => path !== undefined,
  )
  const servers = new Map<Server, boolean>()
  let material = readMaterial(settings)
  /** The files as they were at the last look; and those that are in force, or were told to be bad. */
  let seen = ''
  let settled = ''
  onRead(validToOf(material.cert))

  function look(now: string): void {
    if (now === settled) return
    try {
      const read = readMaterial(settings)
      settled = now
      if (JSON.stringify(read) === JSON.stringify(material)) return
      material = read
      for (const [server, asks] of servers) server.setSecureContext(contextFor(asks))
      onRead(validToOf(read.cert))
    } catch (error) {
      // Two files are not replaced at once: what is bad has to be so at two looks.
      if (now === seen) {
        settled = now
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
        // The files may have changed since the server was made.
        server.setSecureContext(contextFor(asks))
      },
    }
  }

  const asksCallers = settings.clientCaFile !== undefined
  const watch = watchFiles(paths, everyMs, look)
  return {
    /** For a server whose callers show no certificate. */
    plain: serverTls(false, {}),
    /** For one that asks for a certificate, and looks itself whether there was a good one. */
    asking: serverTls(true, { requestCert: asksCallers, rejectUnauthorized: false }),
    /** For one that serves nobody without a good certificate, where there are authorities for one. */
    demanding: serverTls(true, { requestCert: asksCallers, rejectUnauthorized: asksCallers }),
    /** Whether callers have to show a certificate. */
    asksCallers,
    close: watch.close,
  }
}

/** What is wrong with the files, each problem with the setting's name in front. */
export function checkTls(settings: TlsSettings): readonly string[] {
  try {
    readMaterial(settings)
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}

function readMaterial({ certFile, keyFile, clientCaFile, minVersion }: TlsSettings): Material {
  const cert = readCertificates('TLS_CERT_FILE', certFile)
  const key = read('TLS_KEY_FILE', keyFile)
  if (!key.includes('PRIVATE KEY-----')) {
    throw new Error(`TLS_KEY_FILE: ${keyFile} holds no private key in PEM`)
  }
  // Node takes an empty list of authorities for "the usual ones", who vouch for anybody.
  const ca = clientCaFile && readCertificates('TLS_CLIENT_CA_FILE', clientCaFile)
  const material = { cert, key, minVersion: `TLSv${minVersion}` as const, ...(ca && { ca }) }
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

function readCertificates(setting: string, path: string): string {
  const text = read(setting, path)
  const found = text.match(pemCertificate) ?? []
  try {
    for (const one of found) new X509Certificate(one)
    if (found.length > 0) return text
  } catch {
    // Told below.
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

import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { temporaryFolder } from './temporary-folder.ts'

/** Why certificates cannot be made here, for tests to skip; false if they can. */
export const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'no openssl'

/** A self-signed certificate and its key, both in PEM, and their files. */
export interface Certificate {
  readonly cert: string
  readonly key: string
  readonly path: string
  readonly keyPath: string
}

/** Creates a certificate for this machine, deleted when `t` ends. */
export function makeCertificate(t: Test, days?: number): Certificate {
  return selfSigned(temporaryFolder(t), 'DNS:localhost,IP:127.0.0.1', days)
}

/** Creates a certificate for these subject alternative names (`DNS:a.example,IP:127.0.0.1`), in an empty folder. */
export function selfSigned(folder: string, names: string, days = 1): Certificate {
  const [keyPath, path] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-days', `${days}`, '-subj', '/CN=test', '-addext', `subjectAltName=${names}`],
      ...['-keyout', keyPath, '-out', path],
    ],
    { stdio: 'ignore' },
  )
  const [cert, key] = [readFileSync(path, 'utf8'), readFileSync(keyPath, 'utf8')]
  return { cert, key, path, keyPath }
}

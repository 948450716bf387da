import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { temporaryFolder } from './temporary-folder.ts'

/** A certificate that is its own authority, for this machine; in PEM. */
export interface Certificate {
  readonly key: string
  readonly cert: string
  /** The file that holds `cert`. */
  readonly path: string
  /** The file that holds `key`. */
  readonly keyPath: string
}

/** A title's `skip`: certificates are made by openssl. */
export const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'no openssl'

/** Makes one that is gone when `t` ends. */
export function makeCertificate(t: Test): Certificate {
  const folder = temporaryFolder(t)
  const [key, path] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const made = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
    ...['-days', '1', '-subj', '/CN=localhost', '-keyout', key, '-out', path],
    ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
  ])
  if (made.status !== 0) throw new Error(String(made.stderr))
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(path, 'utf8'), path, keyPath: key }
}

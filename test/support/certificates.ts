import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Why certificates cannot be made here, for tests to skip; false: they can. */
export const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'no openssl'

/** A certificate that vouches for itself, and its key, both in PEM. */
export interface SelfSigned {
  readonly cert: string
  readonly key: string
}

/** Makes one for these subject alternative names (`DNS:a.example,IP:127.0.0.1`), in an empty folder. */
export function selfSigned(folder: string, names: string): SelfSigned {
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-days', '1', '-subj', '/CN=test', '-addext', `subjectAltName=${names}`],
      ...['-keyout', key, '-out', cert],
    ],
    { stdio: 'ignore' },
  )
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
}

/** The secrets that a model needs, and the files in which Envoy finds them. */

import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { ModelServer, ServerCredential } from '../kinds/resources.ts'

/** A secret: the value of a header, or the certificates of authorities. */
export interface Secret extends Omit<ServerCredential, 'header'> {
  readonly kind: 'credential' | 'authorities'
  readonly namespace: string
}

/** Where Envoy finds a secret: the file at `path` contains the resource `name`. */
export interface SecretLocation {
  readonly name: string
  readonly path: string
}

/** The credential and the authorities of a model's server, if it has its own. */
export function serverSecrets(
  namespace: string,
  { credential, caFile }: ModelServer,
): [credential: Secret | undefined, authorities: Secret | undefined] {
  return [
    credential && { kind: 'credential', namespace, ...credential },
    caFile === undefined
      ? undefined
      : { kind: 'authorities', namespace, file: caFile, secretRef: undefined, prefix: '' },
  ]
}

/** Equal secrets share a location. `directory` is the folder of Envoy's clusters. */
export function locationOf(secret: Secret, directory: string): SecretLocation {
  const { kind, namespace, file, secretRef, prefix } = secret
  const id = hash('sha256', JSON.stringify([kind, namespace, file, prefix, secretRef]), 'hex')
  const name = `${kind}-${id.slice(0, 32)}`
  return { name, path: join(secretFolder(directory), `${name}.json`) }
}

/** The folder of the files of secrets, in the folder of Envoy's clusters. */
export function secretFolder(directory: string): string {
  return join(directory, 'secrets')
}

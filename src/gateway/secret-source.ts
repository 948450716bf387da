/**
 * Reads secrets from `SECRETS_DIR`: `<namespace>/<file>`, never through a link to another place; and from the cluster's
 * Secrets.
 */

import { X509Certificate } from 'node:crypto'
import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Secret } from './secret-location.ts'

/** The text of a secret, or the problem with its file. The problem never contains the text. */
export type SecretReading = { readonly text: string } | { readonly problem: string }

/** Reads an entry of a Secret in the cluster. */
type ReadEntry = (namespace: string, name: string, key: string) => Promise<SecretReading>

const maxBytes = 1_048_576
const headerValue = /^[!-~](?:[ -~]*[!-~])?$/
const certificate = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Reads the secret that a resource names: from a Secret with `readEntry`, otherwise from a file of the folder. */
export function createSecretReader(folder: string | undefined, readEntry?: ReadEntry) {
  return async (secret: Secret): Promise<SecretReading> => {
    const { namespace, secretRef, prefix } = secret
    if (secretRef === undefined || readEntry === undefined) return await readSecret(folder, secret)
    const { name, key } = secretRef
    const entry = await readEntry(namespace, name, key)
    if ('problem' in entry) return entry
    return toCredential(`the Secret ${namespace}/${name}`, entry.text, prefix)
  }
}

/** Reads one secret. Authors of a namespace's resources can reach only that namespace's files. */
async function readSecret(folder: string | undefined, secret: Secret): Promise<SecretReading> {
  const { namespace, file, secretRef } = secret
  if (file === undefined) {
    return { problem: `the Secret ${namespace}/${secretRef?.name} needs RESOURCES=kubernetes` }
  }
  const shown = `${namespace}/${file}`
  if (folder === undefined) return { problem: `${shown} cannot be read: SECRETS_DIR is not set` }
  try {
    const root = join(await realpath(folder), namespace)
    const path = await realpath(join(root, file))
    if (!path.startsWith(root + sep))
      return { problem: `${shown} is a link to a file outside of the namespace's folder` }
    const bytes = await readWhole(path)
    if (bytes === undefined)
      return { problem: `${shown} is not a regular file, or is larger than 1 MiB` }
    return secret.kind === 'credential'
      ? toCredential(shown, bytes, secret.prefix)
      : readAuthorities(shown, bytes)
  } catch (error) {
    return { problem: `${shown} cannot be read (${(error as NodeJS.ErrnoException).code})` }
  }
}

/** Returns undefined if the file is not a regular one, or is too large. */
async function readWhole(path: string): Promise<string | undefined> {
  // Without it, opening a pipe would wait for a writer.
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const stat = await file.stat()
    return stat.isFile() && stat.size <= maxBytes ? await file.readFile('utf8') : undefined
  } finally {
    await file.close()
  }
}

/** The header's value from the content of a file or a Secret. */
function toCredential(shown: string, written: string, prefix: string): SecretReading {
  // Editors and `echo` end a file with a line break.
  const value = written.trim()
  if (value === '') return { problem: `${shown} is empty` }
  if (!headerValue.test(value))
    return { problem: `${shown} has characters that a header cannot contain` }
  return { text: prefix + value }
}

function readAuthorities(shown: string, text: string): SecretReading {
  const found = text.match(certificate) ?? []
  try {
    for (const each of found) new X509Certificate(each)
  } catch {
    return { problem: `${shown} has a certificate that cannot be read` }
  }
  return found.length > 0
    ? { text: `${found.join('\n')}\n` }
    : { problem: `${shown} has no certificate` }
}

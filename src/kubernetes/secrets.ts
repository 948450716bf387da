/** Entries of the cluster's Secrets, read one by one: our role may only `get` named ones. */

import { isObject } from '../formats/fields.ts'
import { BoundedMap } from '../runtime/bounded-map.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { createSingleFlight } from '../runtime/single-flight.ts'
import { isRefusal, type KubeClient, KubeError, refusalsBelieved } from './client.ts'

/** Its text, or why it is not available. The problem never contains the text. */
type SecretEntry = { readonly text: string } | { readonly problem: string }

type ReadSecretEntry = (namespace: string, name: string, key: string) => Promise<SecretEntry>

interface SecretsOptions {
  /** How long a response is cached, in milliseconds. */
  readonly keptMs?: number
  /** A monotonic clock in milliseconds. */
  readonly monotonic?: () => number
}

interface Known {
  readonly askedAt: number
  readonly data: Readonly<Record<string, unknown>> | string
  /** How often in a row it was refused. */
  readonly refusals: number
}

/** Maximum number of Secrets; those of former ModelRefs are forgotten first. */
const maxSecrets = 20_000

/**
 * While the API server fails, the last text stays valid. That of a Secret that is deleted does not, nor that of one which
 * is refused several times in a row.
 */
export function createReadSecretEntry(
  client: KubeClient,
  { keptMs = 10_000, monotonic = () => performance.now() }: SecretsOptions = {},
): ReadSecretEntry {
  const known = new BoundedMap<string, Known>(maxSecrets)

  const ask = createSingleFlight(async (path: string): Promise<Known> => {
    const askedAt = monotonic()
    const before = known.get(path)
    let refusals = 0
    const data = await client
      .send({ path })
      .then((secret) => (isObject(secret.data) ? secret.data : {}))
      .catch((error: unknown) => {
        if (isRefusal(error)) refusals = (before?.refusals ?? 0) + 1
        const isGone = error instanceof KubeError && error.status === 404 && error.isStatus
        const isBelieved = isGone || refusals >= refusalsBelieved
        if (!isBelieved && typeof before?.data === 'object') return before.data
        return errorMessage(error)
      })
    const fresh = { askedAt, data, refusals }
    known.set(path, fresh)
    return fresh
  })

  return async function readSecretEntry(namespace, name, key) {
    const path = `/api/v1/namespaces/${namespace}/secrets/${name}`
    let found = known.get(path)
    if (found === undefined || monotonic() - found.askedAt >= keptMs) found = await ask(path)
    const shown = `the Secret ${namespace}/${name}`
    if (typeof found.data === 'string') return { problem: `${shown} cannot be read: ${found.data}` }
    const entry = Object.hasOwn(found.data, key) ? found.data[key] : undefined
    if (typeof entry !== 'string') return { problem: `${shown} has no entry ${key}` }
    return { text: Buffer.from(entry, 'base64').toString() }
  }
}

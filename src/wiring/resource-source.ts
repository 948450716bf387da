/** The source of resources and secrets: a folder or a cluster. */

import type { Secret } from '../gateway/secret-location.ts'
import { type Reading, readSecret, toCredential } from '../gateway/secret-source.ts'
import { accessOf } from '../kubernetes/access.ts'
import { createClient } from '../kubernetes/client.ts'
import { createReadSecretEntry } from '../kubernetes/secrets.ts'
import { createClusterSource } from '../models/sources/cluster-source.ts'
import { createFolderSource } from '../models/sources/folder-source.ts'
import type { Context } from './context.ts'

/**
 * The source, what reads a secret, the source's name in `/readyz` while it cannot be read, and a description for the log.
 * Throws an error that names the setting to check.
 */
export function openResourceSource({ config, log }: Context) {
  const { resourceFolder, secretsDir, watchGroups } = config
  const fromFolder = (secret: Secret): Promise<Reading> => readSecret(secretsDir, secret)
  if (resourceFolder !== undefined) {
    const source = createFolderSource(resourceFolder)
    return { source, readSecret: fromFolder, degraded: () => [], shown: resourceFolder }
  }
  const client = createClient(accessOf(config), { timeoutMs: 30_000 })
  const readEntry = createReadSecretEntry(client)
  const source = createClusterSource({
    client,
    groups: watchGroups,
    onProblem(collection, problem) {
      if (problem === undefined)
        log.info({ code: 'cluster_readable', collection }, 'resumed reading the cluster')
      else
        log.warn(
          { code: 'cluster_unreadable', collection, problem },
          'cannot read the cluster: the last known state stays in force',
        )
    },
  })
  return {
    source,
    async readSecret(secret: Secret): Promise<Reading> {
      const { namespace, secretRef, prefix } = secret
      if (secretRef === undefined) return fromFolder(secret)
      const { name, key } = secretRef
      const entry = await readEntry(namespace, name, key)
      if ('problem' in entry) return entry
      return toCredential(`the Secret ${namespace}/${name}`, entry.text, prefix)
    },
    degraded: (): readonly string[] => (source.isUnavailable ? ['kubernetes'] : []),
    shown: 'the cluster',
  }
}

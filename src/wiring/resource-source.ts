/** The source of resources and secrets: a folder or a cluster. */

import { createSecretReader } from '../gateway/secret-source.ts'
import { accessOf } from '../kubernetes/access.ts'
import { createClient } from '../kubernetes/client.ts'
import { createReadSecretEntry } from '../kubernetes/secrets.ts'
import { createClusterSource } from '../models/sources/cluster-source.ts'
import { createFolderSource } from '../models/sources/folder-source.ts'
import type { Context } from './context.ts'

/**
 * The source, the reader of secrets, the source's name in `/readyz` while it cannot be read, and a description for the log.
 * Throws an error that names the setting to check.
 */
export function openResourceSource({ config, log }: Context) {
  const { resourceFolder, secretsDir, watchGroups } = config
  if (resourceFolder !== undefined) {
    const source = createFolderSource(resourceFolder)
    return {
      source,
      readSecret: createSecretReader(secretsDir),
      degraded: (): readonly string[] => (source.isUnavailable ? ['resources'] : []),
      shown: resourceFolder,
    }
  }
  const client = createClient(accessOf(config), { timeoutMs: 30_000 })
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
    readSecret: createSecretReader(secretsDir, createReadSecretEntry(client)),
    degraded: (): readonly string[] => (source.isUnavailable ? ['kubernetes'] : []),
    shown: 'the cluster',
  }
}

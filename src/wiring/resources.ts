/** Resources from a folder: read, compiled, announced to Envoy and put in force. */

import { startController } from '../controller/controller.ts'
import { createFolderSource } from '../controller/folder-source.ts'
import { sharedPriorities } from '../core/conditions.ts'
import type { Snapshot } from '../core/snapshot.ts'
import { createClusterFile } from '../gateway/cluster-file.ts'
import type { Context } from './context.ts'

export interface Resources {
  /** What is in force now. */
  readonly snapshot: () => Snapshot
  readonly problems: () => readonly string[]
}

/** Settles when the first snapshot is in force. */
export async function openResources(context: Context): Promise<Resources> {
  const { config, log, onFault, stops } = context
  let snapshot: Snapshot | undefined
  const clusterFile = createClusterFile(config.envoyConfigDir, onFault)
  stops.push(() => clusterFile.close())
  const controller = await startController({
    source: createFolderSource(config.resourceFolder),
    async publish(fresh) {
      await clusterFile.announce(fresh)
      snapshot = fresh
    },
    report(fresh, found) {
      for (const problem of found) log.warn({ problem }, 'resource problem')
      for (const message of sharedPriorities(fresh)) log.warn(message)
      const { models, policies, subscriptions } = fresh
      log.info(
        {
          models: models.size,
          policies: policies.size,
          subscriptions: subscriptions.size,
          problems: found.length,
        },
        'resources in force',
      )
    },
    onFailure: (error) => log.error({ err: error }, 'resources could not be put in force'),
  }).catch((error: unknown) => {
    throw new Error(`RESOURCES: ${config.resourceFolder} can not be read`, { cause: error })
  })
  stops.push(() => controller.close())
  return {
    snapshot() {
      if (snapshot === undefined) throw new Error('no snapshot has been published')
      return snapshot
    },
    problems: controller.problems,
  }
}

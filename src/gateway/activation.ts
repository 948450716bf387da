/** Puts snapshots in force, as soon as Envoy can reach their models. */

import { qualifiedName, type Resource } from '../kinds/resources.ts'
import { compileInSteps } from '../models/rules/compile.ts'
import type { RefusedResource } from '../models/rules/refused-resources.ts'
import type { Snapshot } from '../models/rules/snapshot.ts'
import { createMutex } from '../runtime/mutex.ts'
import { inSlices } from '../runtime/slices.ts'
import { withAbort } from '../runtime/with-abort.ts'
import type { ClusterFile } from './cluster-file.ts'
import type { SecretFiles } from './secret-files.ts'

/** A snapshot, its resources, and the refused documents. */
interface Published {
  readonly fresh: Snapshot
  readonly resources: readonly Resource[]
  readonly refused: readonly RefusedResource[]
}

const notWritten =
  'the files for Envoy in ENVOY_CONFIG_DIR are not written yet: a disk or a Secret does not respond'

/** A part that repeats earlier decisions, such as the decision table. */
export interface DecisionCache {
  /** Resolves once no earlier decision is reused; they stay unused until as many calls of `resume`. */
  suspend(): Promise<void>
  resume(): void
}

/**
 * The snapshot in force: the one published last, except for models that wait for their cluster, which stay in their
 * previous version. Removals never wait. When `onActive` is called, with its resources, nothing decides by an earlier snapshot.
 */
export function createActivation(
  clusterFile: ClusterFile,
  secrets: SecretFiles,
  onActive: (resources: readonly Resource[]) => void,
  table: DecisionCache,
  writeWaitMs = 5_000,
) {
  /** The last snapshot that was to be published, from before its clusters are planned. */
  let intended: Snapshot | undefined
  let latest: Published | undefined
  let active: Snapshot | undefined
  let refused: Published['refused'] = []
  const withLock = createMutex()
  const withFiles = createMutex()

  async function update(): Promise<void> {
    if (latest === undefined) return
    const { fresh, resources } = latest
    const held = clusterFile.waiting
    const steps = () => compileInSteps(holdModels(resources, held, active), fresh)
    const { refused: left } = latest
    const next = held.size === 0 ? fresh : await inSlices(steps())
    await table.suspend()
    try {
      active = next
      refused = left
      onActive(resources)
    } finally {
      table.resume()
    }
  }

  /** Calls run one after the other, so that the last has the latest state. */
  const activate = (): Promise<void> => withLock(update)

  /** Writes the planned clusters, and first their secrets, because Envoy refuses a cluster that names a missing file. */
  const writeFiles = (): Promise<void> =>
    withFiles(async () => {
      for (let fresh: Snapshot | undefined; fresh !== intended; ) {
        fresh = intended
        if (fresh !== undefined) await secrets.write(fresh)
      }
      await clusterFile.write()
    })

  function published(snapshot: Snapshot | undefined): Snapshot {
    if (snapshot === undefined) throw new Error('no snapshot has been published')
    return snapshot
  }

  const snapshot = (): Snapshot => published(active)

  return {
    activate,
    async publish(published: Published): Promise<void> {
      const { fresh } = published
      intended = fresh
      await inSlices(clusterFile.planInSteps(fresh))
      // Only once the missing clusters are known: a model released meanwhile activates the
      // latest state.
      latest = published
      if (active !== undefined) {
        await activate()
        // A disk that hangs must not keep the next snapshot, which may remove access, from being in force.
        const late = AbortSignal.timeout(writeWaitMs)
        await withAbort(writeFiles(), late).catch((error: unknown) => {
          throw error === late.reason ? new Error(notWritten) : error
        })
        return
      }
      await writeFiles()
      await clusterFile.settled()
      await activate()
    },
    snapshot,
    latest: () => published(latest?.fresh),
    state: () => ({ snapshot: snapshot(), refused }),
    /** Whether a newer version of the model (`<namespace>/<name>`) is not in force yet. */
    isHeld: (model: string): boolean =>
      latest?.fresh.models.get(model)?.resource !== active?.models.get(model)?.resource,
  }
}

/**
 * The resources with these models (`<namespace>/<name>`) as in `active`, or left out if they are not
 * there. Policies and subscriptions are the new ones, so that revoked access ends at once.
 */
export function holdModels(
  resources: readonly Resource[],
  held: Pick<ReadonlySet<string>, 'has'>,
  active: Snapshot | undefined,
): readonly Resource[] {
  return resources.flatMap((resource) => {
    const key = qualifiedName(resource)
    if (resource.kind !== 'ModelRef' || !held.has(key)) return resource
    return active?.models.get(key)?.resource ?? []
  })
}

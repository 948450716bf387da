/** Keeps Envoy's clusters in step with the snapshots, so that no request ever misses its cluster. */

import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Snapshot } from '../core/snapshot.ts'
import { type Backend, renderClusters, writeClusters } from './clusters.ts'

/** Milliseconds in which Envoy has taken a new file (seen: 7). */
const settleMs = 100
/** Milliseconds that a cluster stays after its model left: Checks already answered still need it. */
const graceMs = 5_000

export interface ClusterFile {
  /**
   * Puts the clusters of a snapshot in place and settles when Envoy has had time to take them;
   * the snapshot is to be published after that. Clusters of models that are gone follow later.
   */
  announce(snapshot: Snapshot): Promise<void>
  close(): void
}

/** The clusters file in `directory`, which is made when missing. */
export function createClusterFile(
  directory: string,
  onFault: (error: unknown) => void,
): ClusterFile {
  let written: readonly Backend[] | undefined
  let cleanup: NodeJS.Timeout | undefined

  async function write(backends: readonly Backend[]): Promise<void> {
    const version = createHash('sha256').update(JSON.stringify(backends)).digest('hex').slice(0, 16)
    await mkdir(directory, { recursive: true })
    await writeClusters(directory, renderClusters(backends, version))
    written = backends
  }

  return {
    async announce(snapshot) {
      clearTimeout(cleanup)
      const wanted = backendsOf(snapshot)
      const before = written ?? []
      const names = new Set(wanted.map(({ cluster }) => cluster))
      const leaving = before.filter(({ cluster }) => !names.has(cluster))
      const together = [...wanted, ...leaving]
      if (written !== undefined && JSON.stringify(together) === JSON.stringify(written)) return
      await write(together)
      await delay(settleMs)
      if (leaving.length === 0) return
      cleanup = setTimeout(() => write(wanted).catch(onFault), graceMs).unref()
    },
    close: () => clearTimeout(cleanup),
  }
}

function backendsOf(snapshot: Snapshot): readonly Backend[] {
  const backends: Backend[] = []
  for (const { cluster, resource } of snapshot.models.values()) {
    if (cluster === undefined || resource.backendUrl === undefined) continue
    backends.push({ cluster, backendUrl: resource.backendUrl })
  }
  return backends.sort((a, b) => (a.cluster < b.cluster ? -1 : 1))
}

/**
 * Which models wait because Envoy does not have their cluster yet, and which have stopped waiting although it has not
 * been seen there. No I/O; time is an argument (milliseconds, monotonic).
 */

import type { LoadedClusters } from './admin-page.ts'

/** A cluster as in the file; equal texts are equal clusters. */
export interface RenderedCluster {
  readonly cluster: string
  readonly text: string
  readonly digest: string
  /** Whether Envoy resolves its address. */
  readonly isNamed: boolean
}

/** The clusters of a snapshot by model key, and the `version_info` of their file. */
export interface ClustersVersion {
  readonly name: string
  readonly clusters: ReadonlyMap<string, RenderedCluster>
}

/** Why a cluster was not seen in Envoy: it responds and has not loaded it, or its admin page does not respond. */
export type UnseenReason = 'not taken' | 'no answer'

/** How long a model waits for an Envoy that responds and has not loaded its cluster. */
const timeoutMs = 10_000
/** `timeoutMs` at the start, when readiness waits. */
const startTimeoutMs = 5_000
/** `timeoutMs` while there is no admin page, except at the start. */
const noAdminTimeoutMs = 2_000
/** How long a model waits for Envoy to resolve its server's name. */
const resolvingMs = 3_000
/** The number of recent files that are recognized. */
const versionsKept = 16

export function createClusterWaits() {
  const waiting = new Map<string, RenderedCluster & { since: number }>()
  const unseen = new Map<string, { readonly is: RenderedCluster; readonly reason: UnseenReason }>()
  const versions: ClustersVersion[] = []
  let served: ReadonlyMap<string, RenderedCluster> = new Map()
  let isFirst = true

  function hasLoaded(
    loaded: LoadedClusters | undefined,
    key: string,
    is: RenderedCluster,
  ): boolean {
    const clusters = versions.find(({ name }) => name === loaded?.version)?.clusters
    return clusters?.get(key)?.text === is.text && !loaded?.warming.has(is.cluster)
  }

  /** Drops the models from `unseen` whose clusters Envoy has loaded by now; returns whether there are any. */
  function noteLoaded(loaded: LoadedClusters | undefined): boolean {
    const before = unseen.size
    for (const [key, { is }] of unseen) if (hasLoaded(loaded, key, is)) unseen.delete(key)
    return unseen.size < before
  }

  return {
    /** Keys of the models that Envoy cannot serve yet as planned. */
    waiting: waiting as ReadonlyMap<string, RenderedCluster>,
    /** By key: why models stopped waiting although Envoy was not seen to load their cluster. */
    unseen: unseen as ReadonlyMap<string, { readonly reason: UnseenReason }>,
    /** Makes models with a new cluster wait. */
    plan({ clusters }: ClustersVersion): void {
      served = new Map([...served].filter(([key]) => clusters.has(key)))
      for (const key of waiting.keys()) if (!clusters.has(key)) waiting.delete(key)
      for (const [key, { is }] of unseen) {
        if (clusters.get(key)?.text !== is.text) unseen.delete(key)
      }
      for (const [key, is] of clusters) {
        if (served.get(key)?.text === is.text) waiting.delete(key)
        else if (waiting.get(key)?.text !== is.text) waiting.set(key, { ...is, since: Infinity })
      }
    },
    /** The planned version is in the file: the time to wait begins. */
    begin(version: ClustersVersion, now: number): void {
      versions.unshift(version)
      versions.length = Math.min(versions.length, versionsKept)
      for (const wait of waiting.values()) wait.since = Math.min(wait.since, now)
    },
    noteLoaded,
    /** Releases the models whose clusters Envoy has loaded, and those that have waited too long. */
    release(loaded: LoadedClusters | undefined, now: number) {
      const hasSeen = noteLoaded(loaded)
      const timeout = loaded === undefined ? noAdminTimeoutMs : timeoutMs
      const waitsMs = !isFirst ? timeout : loaded === undefined ? 0 : startTimeoutMs
      const reason: UnseenReason = loaded === undefined ? 'no answer' : 'not taken'
      const released = new Map<string, RenderedCluster>()
      const overdue: string[] = []
      for (const [key, is] of waiting) {
        const isLoaded = hasLoaded(loaded, key, is)
        const waitedMs = now - is.since
        if (!isLoaded && waitedMs < waitsMs) continue
        const isResolved = !is.isNamed || loaded?.resolved.has(is.cluster)
        if (isLoaded && !isResolved && waitedMs < resolvingMs) continue
        if (isLoaded) unseen.delete(key)
        else {
          overdue.push(key)
          unseen.set(key, { is, reason })
        }
        released.set(key, is)
        waiting.delete(key)
      }
      served = new Map([...served, ...released])
      // An Envoy that is not running yet reads the file when it starts.
      const isStart = isFirst && loaded === undefined
      return {
        /** Whether Envoy has now loaded clusters of models that had stopped waiting. */
        hasSeen,
        /** Whether some models no longer wait. */
        hasReleased: released.size > 0,
        /** Models that stopped waiting although Envoy was not seen to load their clusters, and why. */
        overdue: isStart ? [] : overdue,
        reason,
      }
    },
    /** Ends the start; call it when no model waits. */
    settle(): void {
      isFirst = false
    },
  }
}

/**
 * Writes Envoy's clusters for each snapshot, and tracks the models that must wait because Envoy
 * does not have their cluster yet. With thousands of clusters Envoy takes a second or two.
 */

import { createHash, hash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { getOrAdd } from '../formats/lists.ts'
import type { ModelRef } from '../kinds/resources.ts'
import type { Model, Snapshot } from '../models/rules/snapshot.ts'
import { repeat, restAfter } from '../runtime/loop.ts'
import { createMutex } from '../runtime/mutex.ts'
import { createSingleFlight } from '../runtime/single-flight.ts'
import { unlessMissing } from '../runtime/unless-missing.ts'
import type { LoadedClusters } from './admin-page.ts'
import {
  type ClustersVersion,
  createClusterWaits,
  type RenderedCluster,
  type UnseenReason,
} from './cluster-waits.ts'
import { clustersFile, joinClusters, noClusters, renderCluster, writeClusters } from './clusters.ts'
import { locationOf, serverSecrets } from './secret-location.ts'

/** How long a cluster stays after its model was removed, because answered Checks still need it; milliseconds. */
const graceMs = 5_000
/** Rests between two polls. */
const rests = { firstMs: 5, maxMs: 250 }
/** Rests between two polls about models that no longer wait. */
const unseenRests = { firstMs: 500, maxMs: 4_000 }
/** Milliseconds between two checks of the file. */
const checkMs = 1_000

interface ClusterFileDeps {
  /** Created if missing. */
  readonly directory: string
  /** Reads Envoy's admin page, and which of these clusters have an address. */
  readonly readLoadedClusters: (named: readonly string[]) => Promise<LoadedClusters>
  /** Some models no longer wait. */
  readonly onLoaded: () => void
  /** Envoy has now loaded clusters of models that had stopped waiting. */
  readonly onSeen: () => void
  /** Models that stopped waiting although Envoy was not seen to load their clusters, and why. */
  readonly onOverdue: (models: readonly string[], reason: UnseenReason) => void
  readonly onFault: (error: unknown) => void
}

export type ClusterFile = ReturnType<typeof createClusterFile>

/** Cluster texts by cluster name. */
type Written = ReadonlyMap<string, string>
type Rendered = WeakMap<ModelRef, RenderedCluster>

export function createClusterFile(deps: ClusterFileDeps) {
  const closing = new AbortController()
  const withLock = createMutex()
  const rendered: Rendered = new WeakMap()
  const waits = createClusterWaits()
  const { waiting, unseen } = waits
  let models: Snapshot['models'] | undefined
  let planned: ClustersVersion | undefined
  let written: { readonly name: string; readonly clusters: Written } | undefined
  /** Polls since the last `write`, about models that wait and about those that no longer wait. */
  let polls = 0
  let unseenPolls = 0
  let following = Promise.resolve()
  let cleanup: NodeJS.Timeout | undefined
  let nextPoll: NodeJS.Timeout | undefined

  const put = (clusters: Written, { name }: ClustersVersion): Promise<void> =>
    withLock(async () => {
      // Equal clusters under another name: a removed model has been added again.
      if (written?.name === name && isDeepStrictEqual(clusters, written.clusters)) return
      await writeClusters(deps.directory, joinClusters(clusters.values(), name))
      written = { name, clusters }
    })

  /** Writes the list again if it was removed, or replaced by the empty one that an Envoy needs to start. */
  const restore = (): Promise<void> =>
    withLock(async () => {
      if (written === undefined) return
      const found = await stat(join(deps.directory, clustersFile)).catch(unlessMissing)
      if (found !== undefined && found.size !== noClusters.length) return
      await writeClusters(deps.directory, joinClusters(written.clusters.values(), written.name))
    })
  // A failure is not reported, because the next step tries again.
  void repeat({ step: restore, restMs: checkMs, onFault() {}, signal: closing.signal })

  /** Undefined without a response. */
  const ask = (named: readonly string[]): Promise<LoadedClusters | undefined> =>
    deps.readLoadedClusters(named).catch(() => undefined)

  async function pollWaiting(): Promise<void> {
    while (waiting.size > 0) {
      polls += 1
      await delay(restAfter(polls, rests), undefined, { signal: closing.signal })
      const named = [...waiting.values()].filter(({ isNamed }) => isNamed)
      releaseLoaded(await ask(named.map(({ cluster }) => cluster)))
    }
    waits.settle()
  }

  const follow = createSingleFlight(() =>
    pollWaiting().catch((error: unknown) => {
      if (!closing.signal.aborted) deps.onFault(error)
    }),
  )

  function releaseLoaded(loaded: LoadedClusters | undefined): void {
    const { hasSeen, hasReleased, overdue, reason } = waits.release(loaded, performance.now())
    if (hasSeen) deps.onSeen()
    if (!hasReleased) return
    if (overdue.length > 0) deps.onOverdue(overdue, reason)
    deps.onLoaded()
    pollLater()
  }

  /** Drops the clusters of removed models from the list, unless another process has written a later version of it. */
  const drop = (current: ClustersVersion): Promise<void> =>
    withLock(async () => {
      written = { name: current.name, clusters: textsOf(current) }
      const text = joinClusters(written.clusters.values(), current.name)
      const found = await readFile(join(deps.directory, clustersFile), 'utf8').catch(unlessMissing)
      if (found?.includes(current.name)) await writeClusters(deps.directory, text)
    })

  /** Drops them once no model is held in its previous version. */
  function dropLater(current: ClustersVersion): void {
    cleanup = setTimeout(() => {
      if (waiting.size > 0) dropLater(current)
      else drop(current).catch(deps.onFault)
    }, graceMs).unref()
  }

  function pollLater(): void {
    if (nextPoll !== undefined || unseen.size === 0 || closing.signal.aborted) return
    unseenPolls += 1
    nextPoll = setTimeout(
      async () => {
        if (waits.noteLoaded(await ask([]))) deps.onSeen()
        nextPoll = undefined
        pollLater()
      },
      restAfter(unseenPolls, unseenRests),
    ).unref()
  }

  return {
    /** Keys of the models that Envoy cannot serve yet as in the planned snapshot. */
    waiting: waiting as ReadonlyMap<string, unknown>,
    /** By key: why models stopped waiting although Envoy was not seen to load their cluster. */
    unseen,
    /**
     * Sets the snapshot for the next `write`. When it has run to its end, the affected models
     * wait. Calls must not overlap.
     */
    *planInSteps(snapshot: Snapshot): Generator<void, void> {
      if (snapshot.models === models) return
      const version = yield* versionOf(snapshot.models, rendered, deps.directory)
      // No step from here on: waiting and served models must be separated atomically.
      models = snapshot.models
      if (planned?.name === version.name) return
      planned = version
      waits.plan(version)
    },
    /** Writes the planned clusters. Clusters of removed models are dropped later. */
    async write(): Promise<void> {
      if (planned === undefined) return
      const current = planned
      clearTimeout(cleanup)
      const texts = textsOf(current)
      const leaving = [...(written?.clusters ?? [])].filter(([name]) => !texts.has(name))
      await put(new Map([...texts, ...leaving]), current)
      if (leaving.length > 0) dropLater(current)
      waits.begin(current, performance.now())
      polls = 0
      unseenPolls = 0
      following = follow()
    },
    /** Resolves when no model waits. */
    settled: (): Promise<void> => following,
    close(): void {
      closing.abort()
      clearTimeout(cleanup)
      clearTimeout(nextPoll)
    },
  }
}

/** The clusters of these models, and a name for them. `rendered`: those of earlier versions, most of which are the same. */
function* versionOf(models: Snapshot['models'], rendered: Rendered, directory: string) {
  const clusters = new Map<string, RenderedCluster>()
  const name = createHash('sha256')
  for (const key of [...models.keys()].sort()) {
    const { cluster, resource } = models.get(key) as Model
    const { backendUrl, backendHost: host } = resource
    if (cluster === undefined || backendUrl === undefined) continue
    const one = getOrAdd(rendered, resource, () => {
      const about = { cluster, backendUrl, host, ...readFrom(resource, directory) }
      const text = renderCluster(about)
      return { cluster, text, digest: hash('sha256', text), isNamed: /_DNS"/.test(text) }
    })
    clusters.set(key, one)
    name.update(`${key}\n${one.digest}\n`)
    yield
  }
  return { name: name.digest('hex').slice(0, 16), clusters }
}

/** The cluster's settings besides the address; secrets are in files below `directory`. */
function readFrom({ metadata, server }: ModelRef, directory: string) {
  const [credential, authorities] = serverSecrets(metadata.namespace, server).map(
    (secret) => secret && locationOf(secret, directory),
  )
  const header = server.credential?.header
  return {
    connectMs: server.connectMs,
    authorities,
    ...(credential && header && { credential: { header, secret: credential } }),
  }
}

function textsOf({ clusters }: ClustersVersion): Written {
  return new Map([...clusters.values()].map(({ cluster, text }) => [cluster, text]))
}

/** Envoy's admin page: which clusters Envoy has loaded, its threads, and reopening its log files. */

import { availableParallelism } from 'node:os'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import type { Address } from '../formats/address.ts'
import { serverInfoPath, workersIn } from '../journal/envoy-log.ts'
import { requestOptionsOf, sendRequest } from '../runtime/http-request.ts'

const responseWithinMs = 2_000
const warmingPath = '/config_dump?resource=dynamic_warming_clusters&mask=cluster.name'

/** Envoy's admin page accepted the connection and did not respond in time: it exists and is busy. */
class LateResponse extends Error {
  override readonly name = 'LateResponse'
}

/** The text of one response; rejects if the page does not respond within 2 s, or not with 200. */
export async function requestAdmin(
  admin: Address,
  path: string,
  method: 'GET' | 'POST' = 'GET',
  withinMs = responseWithinMs,
): Promise<string> {
  const signal = AbortSignal.timeout(withinMs)
  let isThere = false
  const onConnect = (): void => {
    isThere = true
  }
  try {
    const response = await sendRequest('http://localhost', {
      ...requestOptionsOf(admin),
      path,
      method,
      signal,
      onConnect,
    })
    const body = await text(response)
    if (response.statusCode !== 200) {
      throw new Error(`Envoy's admin page answered ${response.statusCode}`)
    }
    return body
  } catch (cause) {
    if (!isThere || !signal.aborted) throw cause
    throw new LateResponse(`Envoy's admin page did not answer within ${withinMs} ms`, { cause })
  }
}

/** The state of Envoy's dynamic clusters. */
export interface LoadedClusters {
  /**
   * `version_info` of the last file that it loaded completely; undefined before the first and while
   * it is busy.
   */
  readonly version: string | undefined
  /** Names of loaded clusters that are not usable yet, because a secret is missing. */
  readonly warming: ReadonlySet<string>
  /** The requested clusters that have an address. */
  readonly resolved: ReadonlySet<string>
}

/** Clusters in one request, so that its line stays below Envoy's limit. */
const namesAtOnce = 200

/**
 * Reads which clusters are in use. Cheap with thousands of them (6 ms with 4,000): only text
 * statistics are searched, and there are few. Envoy responds on the thread that loads clusters, so
 * a response comes after a change in progress; a late one means that Envoy is not done. `named`: the
 * clusters of which it is read whether they have an address. Rejects if there is no Envoy.
 */
export async function readLoadedClusters(
  admin: Address,
  named: readonly string[] = [],
  withinMs = responseWithinMs,
): Promise<LoadedClusters> {
  try {
    const texts = await requestAdmin(admin, '/stats?type=TextReadouts', 'GET', withinMs)
    const [, version] = /^cluster_manager\.cds\.version_text: "(.+)"$/m.exec(texts) ?? []
    const dump = await requestAdmin(admin, warmingPath, 'GET', withinMs)
    const { configs = [] } = JSON.parse(dump) as { configs?: { cluster?: { name?: string } }[] }
    const resolved = await readResolved(admin, named, withinMs)
    const warming = new Set(configs.flatMap(({ cluster }) => cluster?.name ?? []))
    return { version, warming, resolved }
  } catch (error) {
    if (!(error instanceof LateResponse)) throw error
    return { version: undefined, warming: new Set(), resolved: new Set() }
  }
}

/** The clusters with at least one address. */
async function readResolved(
  admin: Address,
  named: readonly string[],
  withinMs: number,
): Promise<ReadonlySet<string>> {
  const resolved = new Set<string>()
  for (let from = 0; from < named.length; from += namesAtOnce) {
    const names = named
      .slice(from, from + namesAtOnce)
      .join('|')
      .replaceAll('.', '\\.')
    const path = `/clusters?filter=${encodeURIComponent(`^(${names})$`)}`
    const text = await requestAdmin(admin, path, 'GET', withinMs)
    for (const [, name = ''] of text.matchAll(/^(\S+?)::\S+:\d+::cx_active::/gm)) resolved.add(name)
  }
  return resolved
}

/**
 * How often Envoy is asked for its number of threads, and after how many failures the CPUs of this machine count
 * instead.
 */
const [workersMs, asksAtMost] = [100, 100]

/**
 * How many threads of Envoy serve requests. Polls until the page reports it, as a starting Envoy does not yet, or until
 * `isStopped`.
 */
export async function countWorkers(admin: Address, isStopped: () => boolean): Promise<number> {
  for (let asked = 0; asked < asksAtMost && !isStopped(); asked += 1) {
    const info = await requestAdmin(admin, serverInfoPath).catch(() => '')
    const workers = workersIn(info)
    if (workers > 0) return workers
    await delay(workersMs, undefined, { ref: false })
  }
  return availableParallelism()
}

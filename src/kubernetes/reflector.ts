/**
 * Holds the objects of one collection as the API server has them: a list, then a watch from where
 * the list ended, for as long as the cluster lasts.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { isObject } from '../core/fields.ts'
import { type KubeClient, KubeError } from './client.ts'
import { isKubeObject, type KubeObject, keyOf, listObjects } from './list.ts'

export interface ReflectorOptions {
  readonly client: KubeClient
  /** `/apis/<group>/<version>/…/<plural>`, without a query. */
  readonly path: string
  /** The same in an older version, where there is no such collection at `path`. */
  readonly olderPath?: string | undefined
  readonly fieldSelector?: string | undefined
  readonly labelSelector?: string | undefined
  /** What is kept of an object; unless told, all of it. */
  readonly keep?: ((object: KubeObject) => KubeObject) | undefined
  /** Objects of one page of a list. */
  readonly pageSize?: number | undefined
  /** An object has come, gone or changed, by its key; undefined: many, or the first list. */
  readonly onChange: (key: string | undefined) => void
  /** Told when the API server fails, with the reason, and once when it is back. */
  readonly onProblem: (problem: string | undefined) => void
  /**
   * Asked where listing is forbidden before there was a whole list: false has it read as if there
   * were no such collection, until it is granted. Unless told, it is waited for.
   */
  readonly isNeeded?: () => Promise<boolean>
  readonly signal: AbortSignal
  /** Between two attempts, doubled from one to the next. */
  readonly shortestRestMs?: number
  /** Until a collection that is not there is looked for again. */
  readonly absentMs?: number
}

export interface Reflector {
  /** By `<namespace>/<name>`. */
  readonly objects: ReadonlyMap<string, KubeObject>
  /** Whether there has been a whole list, or the word that there is none to be had. */
  readonly isSynced: boolean
  /** Whether there is no such collection, as far as is known. */
  readonly isAbsent: boolean
}

/** What to do after a failure: rest for these milliseconds, and list anew or not. */
interface Next {
  readonly restMs: number
  readonly isLost: boolean
}

/** A watch ends after so many seconds and is renewed; API servers do the same of their own accord. */
const watchSeconds = 290
/** A watch that says nothing, not even a bookmark, may hang on a connection that is gone. */
const silenceMs = 90_000
const longestRestMs = 10_000
const longestLine = 8 * 1_048_576
/** Refusals until one is believed: an API server that is just starting knows of no rights yet. */
const refusalsBelieved = 3

/** Starts at once; never gives up before `signal`. */
export function startReflector(options: ReflectorOptions): Reflector {
  const { client, signal, onChange, onProblem, keep = (object) => object } = options
  const { shortestRestMs = 200, absentMs = 10_000, pageSize } = options
  const { isNeeded = async () => true } = options
  const { path: newest, olderPath } = options
  const selector = selectorsOf(options)
  const objects = new Map<string, KubeObject>()
  /** Where it was found last. */
  let path = newest
  let isSynced = false
  let isAbsent = false
  let failures = 0
  /** How often in a row the collection was not there. */
  let missed = 0
  /** How often in a row it was not ours to read. */
  let refusals = 0
  let problem: string | undefined
  let listedAt = Number.NEGATIVE_INFINITY

  function note(fresh: string | undefined): void {
    if ((fresh === undefined) !== (problem === undefined)) onProblem(fresh)
    problem = fresh
  }

  function worked(): void {
    failures = 0
    missed = 0
    refusals = 0
    note(undefined)
  }

  /** Reads all of it; answers the version from which to watch. */
  async function list(): Promise<string> {
    path = newest
    try {
      return await listPath()
    } catch (error) {
      const isAbsent = error instanceof KubeError && error.status === 404
      if (!isAbsent || olderPath === undefined) throw error
      path = olderPath
      return await listPath()
    }
  }

  async function listPath(): Promise<string> {
    const listed = await listObjects(client, path, { selector, keep, pageSize, signal })
    replaceAll(listed.objects)
    missed = 0
    listedAt = performance.now()
    return listed.version
  }

  function replaceAll(found: ReadonlyMap<string, KubeObject>, absent = false): void {
    const wasAbsent = isAbsent && !absent
    isAbsent = absent
    let changed = !isSynced || wasAbsent
    for (const key of [...objects.keys()]) if (!found.has(key)) changed = objects.delete(key)
    for (const [key, object] of found) {
      const before = objects.get(key)
      if (before !== undefined && versionOf(before) === versionOf(object)) continue
      objects.set(key, object)
      changed = true
    }
    isSynced = true
    if (changed) onChange(undefined)
  }

  /** Follows until the watch ends; `reached` keeps the version that was reached. */
  async function follow(reached: { version: string }): Promise<void> {
    const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${watchSeconds}`
    const version = `resourceVersion=${encodeURIComponent(reached.version)}`
    const request = { path: `${path}?${query}&${version}${selector}`, signal, idleMs: silenceMs }
    const lines = linesOf(await client.open(request))
    worked()
    for await (const line of lines) {
      const event: unknown = JSON.parse(line)
      if (!isObject(event) || !isObject(event.object)) throw new Error('a watch that says nothing')
      const { type, object } = event
      if (type === 'ERROR') {
        throw new KubeError(
          Number(object.code ?? 500),
          String(object.message ?? 'the watch failed'),
        )
      }
      if (isObject(object.metadata) && typeof object.metadata.resourceVersion === 'string') {
        reached.version = object.metadata.resourceVersion
      }
      if (type === 'BOOKMARK' || !isKubeObject(object)) continue
      const key = keyOf(object)
      if (type === 'DELETED') objects.delete(key)
      else objects.set(key, keep(object))
      onChange(key)
    }
  }

  /** The rights that it takes are not ours. */
  async function forbid(said: string): Promise<Next> {
    refusals += 1
    const next = { restMs: restMsAfter(refusals), isLost: true }
    if (refusals < refusalsBelieved) return next
    const lacking = `list and watch are not granted (${said})`
    if (isSynced) note(lacking)
    else if (await isNeeded()) note(`nothing is in force before they are: ${lacking}`)
    else {
      note(`read as if there were none: ${lacking}`)
      replaceAll(new Map(), true)
    }
    return next
  }

  function restMsAfter(times: number): number {
    return Math.min(shortestRestMs * 2 ** (times - 1), longestRestMs) * (0.75 + Math.random() / 2)
  }

  async function judge(error: unknown): Promise<Next> {
    const status = error instanceof KubeError ? error.status : 0
    // The version is too old: what has happened since is not to be had, but all there is now is.
    // A list that is too old as soon as it is there is not asked for in a loop.
    if (status === 410)
      return { restMs: performance.now() - listedAt < 1_000 ? 1_000 : 0, isLost: true }
    if (status === 404) {
      missed += 1
      // An API server that is just starting may not know of it yet.
      if (objects.size > 0 && missed < 3) return { restMs: 1_000, isLost: true }
      note(undefined)
      replaceAll(new Map(), true)
      return { restMs: absentMs, isLost: true }
    }
    if (status === 403) return await forbid((error as KubeError).message)
    failures += 1
    const restMs = restMsAfter(failures)
    // A watch that breaks off and goes on at once has missed nothing.
    if (failures > 1) note(error instanceof Error ? error.message : String(error))
    const asked = error instanceof KubeError ? 1_000 * Math.min(error.retryAfterSeconds, 60) : 0
    // A few watches that break off may have met an object that they cannot get past.
    const isLost = error instanceof SyntaxError || failures % 5 === 0
    return { restMs: Math.max(asked, restMs), isLost }
  }

  async function run(): Promise<void> {
    const reached = { version: '' }
    let listed = false
    while (!signal.aborted) {
      try {
        if (!listed) {
          reached.version = await list()
          listed = true
        }
        const begunAt = performance.now()
        await follow(reached)
        // A watch that ends as soon as it has begun is not asked for in a loop.
        if (performance.now() - begunAt < shortestRestMs)
          await delay(shortestRestMs, null, { signal })
      } catch (error) {
        if (signal.aborted) return
        const { restMs, isLost } = await judge(error)
        if (isLost) listed = false
        await delay(restMs, undefined, { signal }).catch(() => {})
      }
    }
  }

  void run()
  return {
    objects,
    get isSynced() {
      return isSynced
    },
    get isAbsent() {
      return isAbsent
    },
  }
}

function selectorsOf({ fieldSelector, labelSelector }: ReflectorOptions): string {
  const fields = fieldSelector === undefined ? '' : `&fieldSelector=${fieldSelector}`
  return labelSelector === undefined
    ? fields
    : `${fields}&labelSelector=${encodeURIComponent(labelSelector)}`
}

/** The whole lines of an answer. What follows the last line break is half of one. */
async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer[] = []
  let size = 0
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      const line = Buffer.concat([...rest, chunk.subarray(start, end)]).toString()
      rest = []
      size = 0
      start = end + 1
      if (line !== '') yield line
    }
    rest.push(chunk.subarray(start))
    size += chunk.length - start
    if (size > longestLine) throw new Error('a watch says more than 8 MiB in a line')
  }
}

/** Another one whenever the object is: made again under its name it has another uid. */
function versionOf({ metadata: { uid, resourceVersion } }: KubeObject): string {
  return `${uid}/${resourceVersion}`
}

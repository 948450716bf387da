/** Mirrors the objects of one collection: a list, then a watch from its version, until it is stopped. */

import { setTimeout as delay } from 'node:timers/promises'
import { isObject, type JsonObject } from '../formats/fields.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { restAfter } from '../runtime/loop.ts'
import { createOutage } from '../runtime/outage.ts'
import { isRefusal, type KubeClient, KubeError, pauseOf, refusalsBelieved } from './client.ts'
import {
  isKubeObject,
  isServed,
  type KubeObject,
  type ListOptions,
  listObjects,
  objectKey,
} from './list.ts'

export interface ReflectorOptions extends Pick<ListOptions, 'keep' | 'pageSize'> {
  readonly client: KubeClient
  /** `/apis/<group>/<version>/…/<plural>`, without a query. */
  readonly path: string
  /** The path of another version, for clusters without the collection at `path`, or that cannot convert to it. */
  readonly olderPath?: string | undefined
  readonly fieldSelector?: string | undefined
  readonly labelSelector?: string | undefined
  /** An object was added, removed or changed, by its key, or undefined for many, or the first list. */
  readonly onChange: (key: string | undefined) => void
  /** Called when the API server fails, with the reason, and once when it is back. */
  readonly onProblem: (problem: string | undefined) => void
  /**
   * Called if listing is forbidden before there was a complete list: if false, the collection
   * counts as missing until access is granted. By default access is waited for.
   */
  readonly isNeeded?: () => Promise<boolean>
  readonly signal: AbortSignal
  /** The pause before a missing collection is looked for again. */
  readonly absentMs?: number
}

export interface Reflector {
  /** By `<namespace>/<name>`. */
  readonly objects: ReadonlyMap<string, KubeObject>
  /** Whether there was a complete list, or it is certain that there is none. */
  readonly isSynced: boolean
  /** Whether the collection is missing, as far as is known. */
  readonly isAbsent: boolean
}

/** A watch ends after this many seconds and is renewed; API servers do the same by themselves. */
const watchSeconds = 290
/** A watch without any event, even a bookmark, may hang on a dead connection. */
const silenceMs = 90_000
/** The first pause between two attempts, which then doubles. */
const minRestMs = 200
const backoff = { firstMs: minRestMs, maxMs: 10_000, jitter: 0.25 }
/** etcd takes objects of at most 1.5 MiB, each character of which may have six in JSON. */
const maxLineLength = 16 * 1_048_576
/** The number of watches in a row that end at once, or with an error, before the collection counts as unreadable. */
const endsBelieved = 5
/** Then a watch must last so long to count as readable, or have an event. */
const provenMs = 5_000

/** Starts at once; retries until `signal`. */
export function startReflector(options: ReflectorOptions): Reflector {
  const { client, signal, onChange, onProblem, keep = (object) => object } = options
  const { absentMs = 10_000, pageSize } = options
  const { isNeeded = async () => true } = options
  const { path: newest, olderPath } = options
  const selector = selectorsOf(options)
  const objects = new Map<string, KubeObject>()
  /** The path where it was last found. */
  let path = newest
  let isSynced = false
  let isAbsent = false
  let failures = 0
  /** How often in a row the collection was missing. */
  let missed = 0
  /** How often in a row access was forbidden. */
  let refusals = 0
  /** How many watches in a row ended at once, or with an error, so that the collection may be unreadable. */
  let ended = 0
  const outage = createOutage(onProblem)
  let listedAt = Number.NEGATIVE_INFINITY

  function worked(): void {
    failures = 0
    missed = 0
    refusals = 0
    outage.note(undefined)
  }

  /** Lists the whole collection; returns the version from which to watch. */
  async function list(): Promise<string> {
    listedAt = performance.now()
    path = newest
    const ask = () => listObjects(client, path, { selector, keep, pageSize, signal })
    const listed = await ask().catch(async (error: unknown) => {
      // 404: the cluster does not serve this version. 500: its webhook for converting stored objects to it fails.
      const isMissing = error instanceof KubeError && (error.status === 404 || error.status === 500)
      if (!isMissing || olderPath === undefined) throw error
      path = olderPath
      return await ask().catch((other: unknown) => {
        throw error.status === 404 ? other : error
      })
    })
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

  function apply(object: KubeObject, isDeleted: boolean): void {
    const key = objectKey(object)
    if (isDeleted) objects.delete(key)
    else objects.set(key, keep(object))
    onChange(key)
  }

  /** Follows until the watch ends; `reached` holds the last version. */
  async function follow(reached: { version: string }): Promise<void> {
    const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${watchSeconds}`
    const version = `resourceVersion=${encodeURIComponent(reached.version)}`
    const request = { path: `${path}?${query}&${version}${selector}`, signal, idleMs: silenceMs }
    const lines = linesOf(await client.open(request))
    /** Whether it is proven that the collection can be watched. */
    let isAlive = false
    const prove = (): void => {
      if (isAlive) return
      isAlive = true
      ended = 0
      worked()
    }
    // After several watches that ended at once, opening another one proves nothing.
    if (ended < endsBelieved) worked()
    const before = ended
    const lasting = setTimeout(prove, ended < endsBelieved ? minRestMs : provenMs)
    try {
      for await (const line of lines) {
        const isError = line.startsWith('{"type":"ERROR"')
        if (!isError) prove()
        const { type, object } = readEvent(line)
        if (type === 'ERROR') {
          // The next watch may get the same error at once, so this event proves nothing.
          isAlive = false
          ended = before
          throw new KubeError(
            Number(object.code ?? 500),
            String(object.message ?? 'the watch failed'),
          )
        }
        if (isObject(object.metadata) && typeof object.metadata.resourceVersion === 'string') {
          reached.version = object.metadata.resourceVersion
        }
        if (type !== 'BOOKMARK' && isKubeObject(object)) apply(object, type === 'DELETED')
      }
    } finally {
      clearTimeout(lasting)
      if (!isAlive) ended += 1
    }
    if (!isAlive) throw new Error('the watch ended as soon as it began')
  }

  /** This process lacks the permission. */
  async function forbid(said: string): Promise<void> {
    refusals += 1
    if (refusals < refusalsBelieved) return
    const lacking = `list and watch are not granted (${said})`
    // `refused`: reported even if the server was unavailable before, which is another cause.
    const note = (problem: string): void => outage.note(problem, 'refused')
    if (isSynced) note(lacking)
    else if (await isNeeded()) note(`nothing is in force before they are: ${lacking}`)
    else {
      note(`treated as empty: ${lacking}`)
      replaceAll(new Map(), true)
    }
  }

  /** Whether a 404 is the API server's own: it does not have the collection, or does not show us which it has. */
  async function isMissing(): Promise<boolean> {
    try {
      if (await isServed(client, newest)) return false
      return olderPath === undefined || !(await isServed(client, olderPath))
    } catch (error) {
      return error instanceof KubeError && error.isStatus && error.status === 403
    }
  }

  /** The action after a failure: the pause in milliseconds, and whether to list again. */
  async function classify(error: unknown) {
    const status = error instanceof KubeError ? error.status : 0
    // The version is too old: the changes since are lost, but the current state can be listed. If a
    // new list is too old at once, or before its last page, it is not repeated in a tight loop.
    if (status === 410)
      return { restMs: performance.now() - listedAt < 1_000 ? 1_000 : 0, isLost: true }
    if (status === 404) {
      missed += 1
      // An API server that is starting may not serve it yet.
      if (objects.size > 0 && missed < 3) return { restMs: 1_000, isLost: true }
      if (isAbsent || (await isMissing())) {
        outage.note(undefined)
        replaceAll(new Map(), true)
        return { restMs: absentMs, isLost: true }
      }
    }
    if (status === 403) {
      await forbid(errorMessage(error))
      return { restMs: restAfter(refusals, backoff), isLost: true }
    }
    failures += 1
    const restMs = restAfter(failures, backoff)
    // A connection that is cut, and a watch that continues at once, have missed nothing. An event that cannot be read
    // would come again, and an API server that was away, or is silent, may have been restored from a backup: it
    // accepts a version that it has not reached yet, and reports no change before it.
    const isLost = failures > 1 || (error as NodeJS.ErrnoException).code !== 'ECONNRESET'
    if (failures > 1) outage.note(errorMessage(error), isRefusal(error) ? 'refused' : undefined)
    return { restMs: Math.max(pauseOf(error), restMs), isLost }
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
        // A watch that ends as soon as it begins is not repeated in a tight loop.
        if (performance.now() - begunAt < minRestMs) await delay(minRestMs, null, { signal })
      } catch (error) {
        if (signal.aborted) return
        const { restMs, isLost } = await classify(error)
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

function readEvent(line: string): { readonly type: unknown; readonly object: JsonObject } {
  const event: unknown = JSON.parse(line)
  if (isObject(event) && isObject(event.object)) return { type: event.type, object: event.object }
  throw new Error('the watch sent an event without an object')
}

/** The complete lines of a response; an incomplete last line is dropped. */
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
    if (size > maxLineLength) throw new Error('the watch sent a line of more than 16 MiB')
  }
}

/** Changes with every version of the object: an object recreated under its name has another uid. */
function versionOf({ metadata: { uid, resourceVersion } }: KubeObject): string {
  return `${uid}/${resourceVersion}`
}

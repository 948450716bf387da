/** A whole collection of the API server, page by page. */

import { isObject } from '../formats/fields.ts'
import { type KubeClient, KubeError, TooLarge } from './client.ts'

/** An object of the cluster; only its name is validated. */
export interface KubeObject {
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly uid?: string
    readonly resourceVersion?: string
    readonly generation?: number
    /** It is being deleted, and is gone once it has no finalizers. */
    readonly deletionTimestamp?: string
    readonly finalizers?: readonly string[]
  }
  readonly [field: string]: unknown
}

export interface ListOptions {
  /** Begins with `&`. */
  readonly selector?: string
  /** Reduces an object to what is kept; by default all of it. */
  readonly keep?: ((object: KubeObject) => KubeObject) | undefined
  /** Objects per page; 500 by default, and fewer if they are so large that a page would not be read. */
  readonly pageSize?: number | undefined
  readonly signal?: AbortSignal
}

/**
 * Reads the collection at `path`: its objects by `<namespace>/<name>`, and the version from which a watch continues.
 * Rejects with a KubeError if the API server refuses, 404 if there is no such collection.
 */
export async function listObjects(
  client: KubeClient,
  path: string,
  { selector = '', keep = (object) => object, pageSize = 500, signal }: ListOptions = {},
) {
  const objects = new Map<string, KubeObject>()
  let from = ''
  let limit = pageSize
  for (;;) {
    const asked = { path: `${path}?limit=${limit}${selector}${from}`, ...(signal && { signal }) }
    const page = await client.send(asked).catch((error: unknown) => {
      if (!(error instanceof TooLarge) || limit === 1) throw error
    })
    if (page === undefined) {
      limit = Math.ceil(limit / 4)
      continue
    }
    const { items, metadata } = page
    if (!Array.isArray(items) || !isObject(metadata)) throw new Error('the response is not a list')
    for (const item of items) if (isKubeObject(item)) objects.set(objectKey(item), keep(item))
    if (typeof metadata.continue !== 'string' || metadata.continue === '') {
      return { objects, version: String(metadata.resourceVersion ?? '') }
    }
    from = `&continue=${encodeURIComponent(metadata.continue)}`
  }
}

/**
 * Whether the API server has the collection at `path`, by what every authenticated client may read. Rejects if that is
 * not certain: a 404 may come from something before the API server.
 */
export async function isServed(client: KubeClient, path: string): Promise<boolean> {
  const parts = path.split('/')
  const version = parts.slice(0, parts[1] === 'api' ? 3 : 4).join('/')
  try {
    const { resources } = await client.send({ path: version })
    if (!Array.isArray(resources)) throw new Error('the response is not a list of collections')
    return resources.some((each) => isObject(each) && each.name === parts.at(-1))
  } catch (error) {
    if (!(error instanceof KubeError && error.status === 404)) throw error
    const { groups } = await client.send({ path: '/apis' })
    if (!Array.isArray(groups)) throw new Error('the response is not a list of API groups')
    return false
  }
}

/** Whether it has what every object of a cluster has: metadata with a name. */
export function isKubeObject(value: unknown): value is KubeObject {
  return isObject(value) && isObject(value.metadata) && typeof value.metadata.name === 'string'
}

/** `<namespace>/<name>` */
export function objectKey({ metadata: { namespace = '', name } }: KubeObject): string {
  return `${namespace}/${name}`
}

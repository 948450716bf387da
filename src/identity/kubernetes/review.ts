/** The two kinds of reviews of people by a cluster's API server. */

import { isObject, type JsonObject } from '../../formats/fields.ts'
import {
  type ClientOptions,
  type ClusterAccess,
  createClient,
  KubeError,
} from '../../kubernetes/client.ts'

/** Creates a review and returns it with its status. Rejects without a usable response. */
export type Review = (path: string, body: JsonObject) => Promise<JsonObject>

const maxBytes = 1_048_576

export function createReview(access: ClusterAccess, options: ClientOptions = {}): Review {
  const client = createClient(access, { maxBytes, ...options })
  return async function review(path, body) {
    const response = await client.send({ method: 'POST', path, body }).catch((error: unknown) => {
      throw error instanceof KubeError
        ? new KubeError(error.status, toProblem(error.status, path))
        : error
    })
    if (!isObject(response.status)) throw new Error(`the API server did not return a ${body.kind}`)
    return response.status
  }
}

function toProblem(status: number, path: string): string {
  const kind = path.slice(path.lastIndexOf('/') + 1)
  if (status === 403) return `our role may not create ${kind} (403)`
  if (status === 401) return 'the API server does not believe our own token (401)'
  return `the API server responded with ${status}`
}

/** The REST API at this origin, with the types of the service's own schemas. */

import type { FromSchema } from 'json-schema-to-ts'
import type { pastRefusal } from '../../src/admin/explain/explain-response.ts'
import type { ApiKeyResponse } from '../../src/admin/keys/api-key-record.ts'
import type { keyUsageSchema } from '../../src/admin/keys/key-usage.ts'
import type { propagationSchema } from '../../src/admin/keys/propagation.ts'
import type { subscriptionSchema } from '../../src/admin/models/subscription-record.ts'
import type { usagePageSchema } from '../../src/admin/usage/usage-view.ts'
import { readClock } from './clock.ts'

export type { ExplainResponse as Explanation } from '../../src/admin/explain/explain-response.ts'
export type { IncreaseList } from '../../src/admin/increases/increases.ts'
export type { LimitRequestList } from '../../src/admin/increases/limit-requests.ts'
export type { AccessList } from '../../src/admin/operation/list-access.ts'
export type { OwnRefusalList } from '../../src/admin/operation/list-refusals.ts'
export type { ResourceList } from '../../src/admin/operation/list-resources.ts'
export type { ReplicaState, ServiceState } from '../../src/admin/operation/read-state.ts'
export type { LimitList } from '../../src/admin/usage/limits.ts'
export type { SharedLimitList } from '../../src/admin/usage/shared-limits.ts'
export type ApiKey = ApiKeyResponse
export type Refusal = FromSchema<typeof pastRefusal>
export type UsagePage = FromSchema<typeof usagePageSchema>
export type KeyUsage = FromSchema<typeof keyUsageSchema>
export type Propagation = FromSchema<typeof propagationSchema>
export type Subscription = FromSchema<typeof subscriptionSchema>

export interface RefusalList {
  readonly data: readonly Refusal[]
  readonly complete: boolean
  /** The processes that have not responded; undefined if it is unknown which processes exist. */
  readonly silent?: readonly string[]
  /** When the service started, if that is less than an hour ago. */
  readonly since?: string
}

export interface Me {
  readonly username: string
  readonly groups: readonly string[]
  readonly credential: 'identity-token' | 'api-key'
  readonly administrator: boolean
  /** Whether there is usage to read. */
  readonly ledger: boolean
}

export interface Model {
  readonly id: string
  readonly owned_by: string
  readonly url?: string
  readonly ready: boolean
  readonly modelDetails?: {
    readonly displayName?: string
    readonly description?: string
    readonly contextWindow?: string
  }
  readonly subscriptions: readonly { readonly name: string; readonly displayName?: string }[]
}

export interface NewKey {
  readonly name: string
  readonly description?: string
  readonly subscription?: string
  readonly expiresIn?: string
  readonly ephemeral?: boolean
  readonly labels?: Readonly<Record<string, string>>
  readonly models?: ApiKey['models'] | null
  readonly tokenRateLimits?: ApiKey['tokenRateLimits'] | null
  readonly limits?: ApiKey['limits'] | null
  readonly allowedAddresses?: ApiKey['allowedAddresses'] | null
}

export interface CreatedKey {
  readonly key: string
  readonly id: string
  readonly name: string
  readonly subscription: string
  readonly expiresAt: string | null
  /** The models of the key, if it is restricted to some. */
  readonly models?: ApiKey['models']
  /** After a rotation: the old secret, while it works. */
  readonly previous?: ApiKey['previous']
}

/** A refusal with the API's message, or an unreachable gateway (status 0). */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly requestId: string | undefined
  /** Seconds after which the API accepts requests again. */
  readonly retryAfter: number | undefined

  constructor(
    status: number,
    code: string,
    message: string,
    requestId?: string,
    retryAfter?: number,
  ) {
    super(message)
    this.status = status
    this.code = code
    this.requestId = requestId
    this.retryAfter = retryAfter
  }
}

/** A response of any status. Rejects with an ApiError if there is none, or when the signal aborts. */
export function reach(path: string, init: RequestInit): Promise<Response> {
  return fetch(path, { credentials: 'omit', ...init }).catch((error: unknown) => {
    if (init.signal?.aborted) throw error
    throw new ApiError(0, 'unreachable', 'The gateway cannot be reached.')
  })
}

/** Sends a request with a credential. Rejects with an ApiError. */
export async function send(
  token: string,
  method: string,
  path: string,
  body?: unknown,
  more: Readonly<Record<string, string>> = {},
) {
  const response = await reach(path, {
    method,
    headers: { authorization: `Bearer ${token}`, ...more },
    cache: 'no-store',
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  readClock(response)
  if (!response.ok) throw await refusalIn(response)
  return response
}

/** The token for what proves an identity. Rejects with an ApiError. */
export async function exchange(path: string, proof: object): Promise<string> {
  const response = await reach(path, { method: 'POST', body: JSON.stringify(proof) })
  if (!response.ok) throw await refusalIn(response)
  return (await jsonOf<{ readonly token: string }>(response)).token
}

/** The text of a response. Rejects with an ApiError if its end is lost. */
export function textOf(response: Response): Promise<string> {
  return response.text().catch(() => {
    throw new ApiError(0, 'interrupted', cutOff)
  })
}

export const cutOff = 'The connection was lost before the end of the response.'

/** The JSON of a response. Rejects with an ApiError if there is none, such as at a network's sign-in page. */
export async function jsonOf<Value>(response: Response): Promise<Value> {
  return parse(await textOf(response))
}

export function parse<Value>(text: string): Value {
  try {
    return JSON.parse(text)
  } catch {
    throw new ApiError(0, 'interrupted', 'The response is incomplete, or not from the gateway.')
  }
}

/** The refusal in a response that is not ok. */
export async function refusalIn(response: Response): Promise<ApiError> {
  const requestId = response.headers.get('x-request-id') ?? undefined
  const retryAfter = Number(response.headers.get('retry-after')) || undefined
  const text = await response.text().catch(() => '')
  try {
    const { error } = JSON.parse(text)
    const [code, message] = [String(error.code), String(error.message)]
    return new ApiError(response.status, code, message, requestId, retryAfter)
  } catch {
    const message = `The gateway responded with ${response.status}.`
    return new ApiError(response.status, 'unknown', message, requestId, retryAfter)
  }
}

/** Requests to the REST API from a command. */

import type { ApiServer } from './api-server.ts'
import { printable } from './table.ts'

/** The JSON of a 2xx response. Every failure is thrown as a readable error. */
export type ApiClient = (method: string, path: string, body?: object) => Promise<unknown>

const timeoutMs = 30_000

/** A client of one server. */
export function createApiClient({ url, token }: ApiServer): ApiClient {
  return async (method, path, body) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, accept: 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      // Only the configured server gets the token.
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    }).catch((error: unknown) => {
      throw new Error(`${url} cannot be reached (${reasonOf(error)}).`)
    })
    const answer: unknown = await response.json().catch(() => undefined)
    if (response.ok && typeof answer === 'object' && answer !== null) return answer
    throw new Error(refusalOf(answer) ?? `${url} answered ${response.status} without a reason.`)
  }
}

function refusalOf(answer: unknown): string | undefined {
  const message = (answer as { error?: { message?: unknown } } | null | undefined)?.error?.message
  return typeof message === 'string' ? printable(message) : undefined
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `no answer within ${timeoutMs / 1_000} s`
  const { cause } = error
  return cause instanceof Error
    ? ((cause as NodeJS.ErrnoException).code ?? cause.message)
    : error.message
}

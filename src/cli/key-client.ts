/** The key endpoints of the API: their paths, searches, and the state of a change. */

import type { ApiKeyResponse } from '../admin/keys/api-key-record.ts'
import type { ApiClient } from './api-client.ts'
import { printable } from './output.ts'
import type { CommandIo } from './terminal.ts'

/** The propagation in a revocation's response. */
export interface Revoked {
  /** Absent if the change concerns no cap. */
  readonly propagation?: { readonly state: string; readonly waitingFor?: readonly string[] }
}

/** A key that was changed or revoked. */
export type ChangedKey = ApiKeyResponse & Revoked

export const keysPath = '/v1/api-keys'

export function keyPath(id: string): string {
  return `${keysPath}/${encodeURIComponent(id)}`
}

const pageSize = 100

/** The records that match, of all pages; at most `limit`. */
export async function searchKeys(
  ask: ApiClient,
  search: { readonly filters: object; readonly sort: object },
  limit: number,
): Promise<readonly ApiKeyResponse[]> {
  const found = new Map<string, ApiKeyResponse>()
  for (let offset = 0; found.size < limit; ) {
    const pagination = { limit: Math.min(pageSize, limit - found.size), offset }
    const page = (await ask('POST', `${keysPath}/search`, { ...search, pagination })) as {
      readonly data: readonly ApiKeyResponse[]
      readonly has_more: boolean
    }
    // A key created meanwhile shifts the pages, so records may repeat.
    for (const record of page.data) found.set(record.id, record)
    offset += page.data.length
    if (!page.has_more || page.data.length === 0) break
  }
  return [...found.values()]
}

/** Warns that a change is in force, but a serving process has not acknowledged it. */
export function warnOfPending(
  { propagation }: Revoked,
  io: CommandIo,
  meanwhile = 'it may still accept revoked keys for a while',
): void {
  if (propagation?.state !== 'pending') return
  const names = printable(propagation.waitingFor?.join(', ') || 'some replica')
  io.err(`Not confirmed by ${names}: ${meanwhile}.`)
}

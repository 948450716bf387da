/** The key endpoints as functions. Every failure is thrown as a readable error. */
import type { ApiKeyAnswer } from '../admin/keys/api-key-record.ts'
import { createApiClient } from './api-client.ts'
import { findApiTarget } from './api-target.ts'
import type { Call } from './command.ts'
import type { connection } from './commands/flags.ts'
import type { CommandIo } from './terminal.ts'
import { printable } from './text-table.ts'

/** The record of a key. */
export type KeyRecord = ApiKeyAnswer

/** The propagation in a revocation's response. */
export interface Revoked {
  /** Absent in responses of older servers. */
  readonly propagation?: { readonly state: string; readonly waitingFor?: readonly string[] }
}

type RevokedAll = Revoked & { readonly message: string }

interface CreatedKey {
  readonly key: string
  readonly id: string
  readonly name: string
  readonly subscription: string
  readonly expiresAt: string
}

type RotatedKey = CreatedKey &
  Revoked & {
    /** Absent without an overlap. */
    readonly previous?: { readonly endsAt: string }
  }

interface KeySearch {
  /** All statuses if empty. */
  readonly statuses: readonly string[]
  readonly includeEphemeral: boolean
  readonly user: string | undefined
  /** The beginning of a key. */
  readonly prefix?: string | undefined
  /** Labels that a key must have. */
  readonly labels?: Readonly<Record<string, string>>
  readonly sort: { readonly by: string; readonly order: string }
  /** Maximum number of records. */
  readonly limit: number
}

const pageSize = 100

type Body = Readonly<Record<string, unknown>>
type Changed = KeyRecord & Revoked

const path = '/v1/api-keys'
const pathOf = (id: string): string => `${path}/${encodeURIComponent(id)}`

/** The key endpoints of the server that the flags or the environment name. */
export function clientOf(flags: Call<typeof connection>['flags'], io: CommandIo) {
  const server = findApiTarget(io.env, flags)
  const call = createApiClient(server)

  async function make<Made extends CreatedKey>(at: string, body: Body): Promise<Made> {
    const made = (await call('POST', at, body, 'once')) as Made
    if (typeof made.key === 'string') return made
    throw new Error(`${server.url} responded without a key; it is not a Tollgate gateway.`)
  }

  return {
    create: (body: Body) => make<CreatedKey>(path, body),
    /** Reads all pages. */
    async search(search: KeySearch): Promise<readonly KeyRecord[]> {
      const { statuses: status, includeEphemeral, user, prefix, labels, sort, limit } = search
      // JSON omits undefined fields.
      const of = { username: user, keyPrefix: prefix, labelsContain: labels }
      const found = new Map<string, KeyRecord>()
      for (let offset = 0; found.size < limit; ) {
        const page = (await call('POST', `${path}/search`, {
          filters: { status, includeEphemeral, ...of },
          sort,
          pagination: { limit: Math.min(pageSize, limit - found.size), offset },
        })) as { readonly data: readonly KeyRecord[]; readonly has_more: boolean }
        // A key created meanwhile shifts the pages, so records may repeat.
        for (const record of page.data) found.set(record.id, record)
        offset += page.data.length
        if (!page.has_more || page.data.length === 0) break
      }
      return [...found.values()]
    },
    read: (id: string) => call('GET', pathOf(id)) as Promise<KeyRecord>,
    /** Fields that are not in the body do not change. */
    edit: (id: string, body: Body) => call('PATCH', pathOf(id), body) as Promise<Changed>,
    rotate: (id: string, body: Body) => make<RotatedKey>(`${pathOf(id)}/rotate`, body),
    revoke: (id: string) => call('DELETE', pathOf(id)) as Promise<Changed>,
    /** Authenticated by the key itself. */
    revokeGiven: (key: string) => call('POST', `${path}/revoke`, { key }) as Promise<Changed>,
    /** Revokes the caller's own keys if undefined. */
    revokeAll: (username: string | undefined) =>
      call('POST', `${path}/bulk-revoke`, { username }) as Promise<RevokedAll>,
  }
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

/** The query of the table of keys, in the address and for the API. */

import type { ApiKey, UsagePage } from '../api.ts'
import { pageIn } from '../parts/pages.tsx'
import type { Session } from '../session.tsx'

export interface Wanted {
  /** The owner; for administrators all owners if undefined. */
  readonly username: string | undefined
  readonly status: (typeof statuses)[number]
  readonly text: string
  readonly sortBy: SortField
  readonly order: 'asc' | 'desc'
  readonly page: number
}

const statuses = ['active', 'expired', 'revoked', 'all'] as const
export const sortFields = ['name', 'created_at', 'expires_at', 'last_used_at'] as const
export type SortField = (typeof sortFields)[number]

export interface FoundKeys {
  readonly keys: readonly ApiKey[]
  readonly hasMore: boolean
  /** Number of matching keys; undefined if there are more than were read. */
  readonly number: number | undefined
  /** Whether only the first keys were searched for the text. */
  readonly isPartial: boolean
}

interface Answer {
  readonly data: readonly ApiKey[]
  readonly has_more: boolean
}

export const pageSize = 25
const maxPage = 100
const maxSearched = 1_000

/** Reads a query. Missing and invalid values have defaults. */
export function readWanted(query: URLSearchParams, { me }: Session): Wanted {
  const sortBy = sortFields.find((each) => each === query.get('sort')) ?? 'created_at'
  const owner = query.get('owner') ?? ''
  return {
    username: !me.administrator || owner === '' ? me.username : owner === '*' ? undefined : owner,
    status: statuses.find((each) => each === query.get('status')) ?? 'active',
    text: query.get('find') ?? '',
    sortBy,
    order: query.get('order') === 'asc' ? 'asc' : 'desc',
    page: pageIn(query),
  }
}

/** A page of keys. The API finds keys by their prefix; names are compared here, in the first thousand keys. */
export async function findKeys(wanted: Wanted, { call }: Session): Promise<FoundKeys> {
  const { username, status, text, sortBy, order, page } = wanted
  const isPrefix = text.startsWith('sk-')
  const search = (offset: number, limit: number) =>
    call<Answer>('POST', '/v1/api-keys/search', {
      filters: {
        includeEphemeral: true,
        ...(username !== undefined && { username }),
        ...(status !== 'all' && { status: [status] }),
        ...(isPrefix && { keyPrefix: text }),
      },
      sort: { by: sortBy, order },
      pagination: { limit, offset },
    })
  const start = (page - 1) * pageSize
  if (text === '' || isPrefix) {
    const { data, has_more } = await search(start, pageSize)
    const number = has_more ? undefined : start + data.length
    return { keys: data, number, hasMore: has_more, isPartial: false }
  }
  const all: ApiKey[] = []
  let isPartial = false
  for (let offset = 0; offset < maxSearched; offset += maxPage) {
    const { data, has_more } = await search(offset, maxPage)
    all.push(...data)
    isPartial = has_more
    if (!has_more) break
  }
  const sought = text.toLowerCase()
  const found = all.filter(({ name, description = '', subscription, username: owner }) =>
    [name, description, subscription, owner].some((each) => each.toLowerCase().includes(sought)),
  )
  const keys = found.slice(start, start + pageSize)
  const hasMore = found.length > start + pageSize
  return { keys, number: isPartial ? undefined : found.length, hasMore, isPartial }
}

export interface Spent {
  readonly tokens: number
  readonly cost: number | undefined
}

export interface Spending {
  readonly ofKeys: ReadonlyMap<string, Spent>
  readonly currency: string | undefined
}

/** This month's usage of keys, by id; undefined if unknown, or if there are too many keys to read for a table. */
export async function readSpending(
  { username }: Wanted,
  { call, me }: Session,
): Promise<Spending | undefined> {
  if (!me.ledger) return undefined
  const query = new URLSearchParams({ group_by: 'key' })
  if (username !== undefined) query.set('user', username)
  const page = await call<UsagePage>('GET', `/v1/usage?${query}`).catch(() => undefined)
  if (page === undefined || page.has_more) return undefined
  const ofKeys = new Map(
    page.data.map(({ key_id = '', total_tokens: tokens, cost }) => [
      key_id,
      { tokens, cost: cost === undefined ? undefined : Number(cost) },
    ]),
  )
  return { ofKeys, currency: page.currency }
}

/** The query of the usage page, in the address and for the API. */

import type { ApiKey, LimitList, UsagePage } from '../api.ts'
import { now as serviceTime } from '../clock.ts'
import { count } from '../parts/numbers.ts'
import type { Session, TextResponse } from '../session.tsx'

export type UsageRow = UsagePage['data'][number]

/** Number of hours, days or months in UTC, the current one included. */
export const spans = [
  { value: '24h', label: '24 hours', count: 24, unit: 'hour' },
  { value: '7d', label: '7 days', count: 7, unit: 'day' },
  { value: '30d', label: '30 days', count: 30, unit: 'day' },
  { value: '12m', label: '12 months', count: 12, unit: 'month' },
] as const

export const groupings = [
  { value: 'model', label: 'Model', field: 'model' },
  { value: 'key', label: 'Key', field: 'key_id' },
  { value: 'subscription', label: 'Subscription', field: 'subscription' },
  { value: 'user', label: 'User', field: 'user' },
] as const

export interface Asked {
  readonly span: (typeof spans)[number]
  readonly by: (typeof groupings)[number]
  /** For administrators all users if undefined. */
  readonly user: string | undefined
  /** All if empty. */
  readonly model: string
  readonly key: string
}

export interface FoundUsage extends Pick<UsagePage, 'gaps'> {
  /** The currency of the costs. */
  readonly currency: string | undefined
  /** The starts of the hours, days or months, in milliseconds since the epoch. */
  readonly starts: readonly number[]
  /** One row per group, the largest total first. */
  readonly totals: readonly UsageRow[]
  /** By hour, day or month, and group. */
  readonly times: readonly UsageRow[]
  /** Whether there are more rows than were read. */
  readonly isPartial: boolean
  /** The known names of keys, by id. */
  readonly names: ReadonlyMap<string, string>
  /** The caller's limits on the chosen model; empty for the usage of others. */
  readonly limits: LimitList['data']
  /** For limits on cost. */
  readonly limitCurrency: string | undefined
}

const maxPages = 5
/** Maximum number of keys whose names are read. */
const maxNamed = 1_000
/** Maximum number of rows that are read of a result; the API has 1,000 in a page. */
export const maxRows = count(maxPages * 1_000)
const hourMs = 3_600_000

export function readAsked(query: URLSearchParams, { me }: Session): Asked {
  const owner = query.get('owner') ?? ''
  const span = spans.find(({ value }) => value === query.get('span')) ?? spans[1]
  const by = groupings.find(({ value }) => value === query.get('by')) ?? groupings[0]
  const isOther = me.administrator && owner !== ''
  const user = !isOther ? me.username : owner === '*' ? undefined : owner
  return { span, by, user, model: query.get('model') ?? '', key: query.get('key') ?? '' }
}

/** The start of each hour, day or month, in milliseconds since the epoch. */
function startsOf({ count, unit }: Asked['span'], now: number): readonly number[] {
  const date = new Date(now)
  const lengthMs = unit === 'hour' ? hourMs : 24 * hourMs
  return Array.from({ length: count }, (_, at) => {
    const back = count - 1 - at
    if (unit === 'month') return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - back)
    return Math.floor(now / lengthMs) * lengthMs - back * lengthMs
  })
}

/** The address of a query to the API, without groups. */
function addressOf({ span, user, model, key }: Asked, now: number): string {
  const [from = now] = startsOf(span, now)
  const parameters = new URLSearchParams({ from: new Date(from).toISOString() })
  if (user !== undefined) parameters.set('user', user)
  if (model !== '') parameters.set('model', model)
  if (key !== '') parameters.set('key', key)
  return `/v1/usage?${parameters}`
}

/** The complete result as CSV, by time and group: all pages, with the header of the first. */
export async function readCsv(asked: Asked, { read }: Session): Promise<string> {
  const groups = `${asked.span.unit},${asked.by.value}`
  let next: string | undefined = `${addressOf(asked, serviceTime())}&group_by=${groups}&format=csv`
  let all = ''
  while (next !== undefined) {
    const { text, headers }: TextResponse = await read('GET', next)
    all += all === '' ? text : text.slice(text.indexOf('\n') + 1)
    const [, query] = /^<(\?[^>]*)>; rel="next"$/.exec(headers.get('link') ?? '') ?? []
    next = query && `/v1/usage${query}`
  }
  return all
}

export async function findUsage(asked: Asked, { call, me }: Session): Promise<FoundUsage> {
  const now = serviceTime()
  const address = addressOf(asked, now)
  const group = asked.by.value
  const only = new URLSearchParams(asked.model === '' ? {} : { model: asked.model })
  const isOwn = asked.user === me.username
  const [totals, times, names, limits] = await Promise.all([
    readPages(`${address}&group_by=${group}`, call),
    readPages(`${address}&group_by=${asked.span.unit},${group}`, call),
    group === 'key' || asked.key !== '' ? namesOfKeys(asked, call) : new Map<string, string>(),
    isOwn
      ? call<LimitList>('GET', `/v1/limits?${only}`)
      : ({ data: [] } as Pick<LimitList, 'data' | 'currency'>),
  ])
  return {
    ...{ names, gaps: totals.gaps, limits: limits.data, limitCurrency: limits.currency },
    currency: totals.currency,
    starts: startsOf(asked.span, now),
    totals: [...totals.data].sort((a, b) => b.total_tokens - a.total_tokens),
    times: times.data,
    isPartial: totals.has_more || times.has_more,
  }
}

/** All pages of a query, up to `maxRows` rows. */
export async function readPages(address: string, call: Session['call']): Promise<UsagePage> {
  let page = await call<UsagePage>('GET', address)
  const data = [...page.data]
  for (let pages = 1; pages < maxPages && page.next_cursor !== undefined; pages += 1) {
    const cursor = encodeURIComponent(page.next_cursor)
    page = await call<UsagePage>('GET', `${address}&cursor=${cursor}`)
    data.push(...page.data)
  }
  return { ...page, data }
}

interface KeyList {
  readonly data: readonly ApiKey[]
  readonly has_more: boolean
}

/** The names of the keys that were used last. */
async function namesOfKeys({ user }: Asked, call: Session['call']) {
  const names = new Map<string, string>()
  for (let offset = 0; offset < maxNamed; offset += 100) {
    const { data, has_more } = await call<KeyList>('POST', '/v1/api-keys/search', {
      filters: { includeEphemeral: true, ...(user !== undefined && { username: user }) },
      sort: { by: 'last_used_at', order: 'desc' },
      pagination: { limit: 100, offset },
    })
    for (const { id, name } of data) names.set(id, name)
    if (!has_more) break
  }
  return names
}

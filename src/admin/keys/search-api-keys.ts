/** `POST /v1/api-keys/search` (contract, 3.5). */

import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import { type ApiKeyStatus, keyStatuses, printablePrefixOf } from '../../keys/rules/api-key.ts'
import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import type { ApiKeySearch } from '../../keys/store.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { noteForeignRead, recordForeignRead } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { type BodyOf, requirePlainText } from '../http/body.ts'
import { createShareQueue } from '../http/rate-limit-key.ts'
import { boolean, responses, string } from '../http/schema.ts'
import { apiKeySchema, toApiKeyJson } from './api-key-record.ts'
import { labelsField, readLabels, requestedNameField } from './key-fields.ts'

const maxPage = 100
const defaultLimit = 50
const defaultFlatLimit = 10
const status = string('Acts on the effective status: an active key past its expiry is expired.', {
  pattern: '^[ \\t\\r\\n]*(active|revoked|expired)[ \\t\\r\\n]*$',
  examples: keyStatuses,
})
const includeEphemeral = { type: ['boolean', 'null'], default: false } as const
const limit = {
  type: ['integer', 'null'],
  minimum: 1,
  description: 'Records per page; a value above 100 counts as 100.',
  examples: [20],
} as const
const offset = { type: ['integer', 'null'], minimum: 0, default: 0 } as const

/** Filters of the original's v3.4, which declared and ignored them; clients of it may send them. */
const ignoredFilters = {
  createdAfter: {},
  createdBefore: {},
  expiresAfter: {},
  expiresBefore: {},
  lastUsedAfter: {},
  nameContains: {},
  descriptionContains: {},
  hasExpiration: {},
  hasBeenUsed: {},
} as const

const schema = {
  operationId: 'searchApiKeys',
  summary: 'Search API keys',
  description: `Your keys, with a key that has caps only itself; administrators search the keys of all users. Every field, and the
body, is optional. The flat fields (status, limit, offset, includeEphemeral at the top level) are an
older form; they are used only if filters, sort and pagination are all absent.`,
  tags: ['API keys'],
  body: {
    title: 'ApiKeySearch',
    type: ['object', 'null'],
    properties: {
      filters: {
        title: 'ApiKeyFilters',
        type: ['object', 'null'],
        additionalProperties: false,
        properties: {
          ...ignoredFilters,
          username: {
            ...requestedNameField,
            description: 'The owner. Only an administrator may name another user.',
          },
          status: {
            type: ['array', 'null'],
            items: status,
            description: 'Any of these; all if empty or absent.',
          },
          includeEphemeral,
          subscription: {
            ...requestedNameField,
            description: "The subscription's bare name, exactly; any if empty or absent.",
            examples: ['team-a-basic'],
          },
          labelsContain: {
            ...labelsField,
            title: 'LabelsContain',
            description: 'Keys that have all of these labels; any when empty or left out.',
          },
          keyPrefix: {
            type: ['string', 'null'],
            description:
              'The beginning of a key, as in its record and in the response to its creation: `sk-tg-` and six characters; further ones are ignored.',
            examples: ['sk-tg-4fTr0b'],
          },
        },
      },
      sort: {
        title: 'ApiKeySort',
        type: ['object', 'null'],
        description: 'Keys without the date come last both ways; equals are ordered by id.',
        properties: {
          by: {
            title: 'ApiKeySortField',
            type: ['string', 'null'],
            enum: ['created_at', 'expires_at', 'last_used_at', 'name', null],
            default: 'created_at',
          },
          order: {
            type: ['string', 'null'],
            pattern: '^([aA][sS][cC]|[dD][eE][sS][cC])$',
            default: 'desc',
            examples: ['asc', 'desc'],
          },
        },
      },
      pagination: {
        title: 'Pagination',
        type: ['object', 'null'],
        properties: { limit: { ...limit, default: defaultLimit }, offset },
      },
      status: { ...status, type: ['string', 'null'] },
      limit: { ...limit, default: defaultFlatLimit },
      offset,
      includeEphemeral,
    },
    examples: [
      {
        filters: { status: ['active'] },
        sort: { by: 'expires_at', order: 'asc' },
        pagination: { limit: 20 },
      },
    ],
  },
  response: responses('A page of records.', [400, 413], 'ApiKeyPage', {
    object: { type: 'string', const: 'list' },
    data: { type: 'array', items: apiKeySchema },
    has_more: boolean('Whether a further page has records.'),
  }),
} as const

/**
 * Adds the route. Reads one record more than the page, to know whether there are more. A caller's
 * searches run one after the other, because they are the most expensive queries.
 */
export function searchApiKeys(app: Api, deps: ExternalDeps): void {
  const { keys, isAdmin, clock, searchesAtOnce, keyReach } = deps
  const inTurn = createShareQueue(searchesAtOnce, 'search_timeout')
  app.post('/v1/api-keys/search', { schema, config: { audit: 'key.search' } }, async (request) => {
    const caller = callerOf(request)
    const { username, ...form } = readForm(request.body ?? {})
    requirePlainText('filters.username', username)
    if (username !== undefined && username !== caller.user) {
      noteForeignRead(request, { user: username })
    }
    const seesAll = username !== caller.user && (await isAdmin(caller))
    if (username !== undefined && username !== caller.user && !seesAll) {
      throw new ServiceError('admin_required')
    }
    const owner = username ?? (seesAll ? undefined : caller.user)
    if (owner === undefined) noteForeignRead(request, {})
    const now = clock()
    const only = onlyKeyOf(caller, keyReach)
    const search = { ...form, limit: form.limit + 1, owner, only, now }
    const records = await inTurn(caller, () => keys.search(search)).catch(toTimeout)
    await recordForeignRead(request, Math.min(records.length, form.limit))
    return {
      object: 'list',
      data: records.slice(0, form.limit).map((record) => toApiKeyJson(record, now)),
      has_more: records.length > form.limit,
    }
  })
}

/** A slow search does not mean that the store is slow, so it has its own code. */
function toTimeout(error: unknown): never {
  if (!(error instanceof ServiceError) || error.code !== 'store_slow') throw error
  throw new ServiceError('search_timeout', { cause: error.cause })
}

type Form = Omit<ApiKeySearch, 'owner' | 'only' | 'now'> & { readonly username: string | undefined }

type Body = NonNullable<BodyOf<typeof schema.body>>

/** The search form, with a default for each missing field. */
function readForm(body: Body): Form {
  const isNested = body.filters || body.sort || body.pagination
  const { filters, sort, pagination } = isNested ? body : fromFlat(body)
  return {
    username: filters?.username?.trim() ? filters.username : undefined,
    statuses: readStatuses(filters?.status ?? []),
    includeEphemeral: filters?.includeEphemeral ?? false,
    subscription: readSubscription(filters?.subscription),
    prefix: readPrefix(filters?.keyPrefix),
    labels: readLabels('filters.labelsContain', filters?.labelsContain),
    sortBy: sort?.by ?? 'created_at',
    descending: (sort?.order ?? 'desc').toLowerCase() === 'desc',
    ...readPage(pagination?.limit ?? defaultLimit, pagination?.offset),
  }
}

/** The older form in the newer one. */
function fromFlat({ status, limit, offset = null, includeEphemeral = null }: Body): Body {
  const isEmpty = [status, limit, offset, includeEphemeral].every(
    (field) => (field ?? null) === null,
  )
  return {
    filters: { status: status ? [status] : null, includeEphemeral },
    pagination: { limit: limit ?? (isEmpty ? defaultLimit : defaultFlatLimit), offset },
  }
}

/** The schema accepts only the three words. */
function readStatuses(words: readonly string[]): ReadonlySet<ApiKeyStatus> {
  return new Set(words.map((word) => word.trim() as ApiKeyStatus))
}

/** Blanks alone are a name that no subscription has. */
function readSubscription(raw: string | null | undefined): string | undefined {
  requirePlainText('filters.subscription', raw ?? undefined)
  return raw ? raw.trim() : undefined
}

function readPrefix(raw: string | null | undefined): string | undefined {
  if (!raw?.trim()) return undefined
  const prefix = printablePrefixOf(raw.trim())
  if (prefix !== undefined) return prefix
  const message = 'filters.keyPrefix must be the first characters of a key, like sk-tg-4fTr0b.'
  throw invalidRequest(message)
}

/** Beyond 2^53 an offset exceeds every table, and is not a number that Postgres accepts. */
function readPage(limit: number, offset: number | null | undefined) {
  return {
    limit: Math.min(limit, maxPage),
    offset: Math.min(offset ?? 0, Number.MAX_SAFE_INTEGER),
  }
}

/** `limit` and `offset` in the query of a list, and the page that they select. */

import { invalidRequest } from '../../formats/errors.ts'
import { typeInDocument } from './named-schemas.ts'

/** Numbers in a query are text: `readPage` reads them. */
export const pageQuery = {
  limit: {
    type: ['integer', 'string'],
    [typeInDocument]: 'integer',
    minimum: 1,
    maximum: 1_000,
    default: 100,
    description: 'The maximum number of entries.',
  },
  offset: {
    type: ['integer', 'string'],
    [typeInDocument]: 'integer',
    minimum: 0,
    maximum: 1_000_000_000,
    default: 0,
    description: 'The number of entries to skip.',
  },
} as const

export const hasMoreField = {
  type: 'boolean',
  description: 'Whether a further page has entries.',
} as const

interface Page {
  readonly limit: number
  readonly offset: number
}

/** A query; repeated parameters are lists. */
export type PageQuery = { readonly [Name in keyof Page]?: unknown }

/** Throws `invalid_request`, naming the parameter. */
export function readPage(query: PageQuery): Page {
  return { limit: readNumber('limit', query.limit), offset: readNumber('offset', query.offset) }
}

function readNumber(name: keyof Page, raw: unknown): number {
  const { minimum, maximum, default: standard } = pageQuery[name]
  if (raw === undefined) return standard
  const number = /^\d{1,10}$/.test(String(raw)) ? Number(raw) : Number.NaN
  if (number >= minimum && number <= maximum) return number
  const range = `${minimum} to ${maximum.toLocaleString('en')}`
  throw invalidRequest(`${name} must be a number, ${range}.`)
}

/** Selects the page from a complete list. */
export function pageOf<Entry>(entries: readonly Entry[], { limit, offset }: Page) {
  const end = offset + limit
  return { data: entries.slice(offset, end), has_more: entries.length > end }
}

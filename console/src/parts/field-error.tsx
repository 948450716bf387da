/** Shows errors of the API at the field of the form, with the page's field names. */

import { createContext, useContext } from 'react'
import type { ApiError } from '../api.ts'

export interface FieldError {
  readonly field: string
  readonly text: string
  /** For a list: the entry, and the field in it. */
  readonly index?: number
  readonly part?: string | undefined
}

/** The API's fields in the words of forms. */
export const fieldNames = {
  name: 'Name',
  description: 'Description',
  labels: 'Labels',
  models: 'Models',
  tokenRateLimits: 'Token limits',
  limits: 'Further limits',
  allowedAddresses: 'Networks',
  expiresIn: 'Lifetime',
  subscription: 'Subscription',
  model: 'Model',
  user: 'User',
  whom: 'Shared by',
  keyId: 'Key',
  limit: 'Limit',
  until: 'Until',
  reason: 'Reason',
} as const

const about = new RegExp(
  `^(.*?: )?(${Object.keys(fieldNames).join('|')})(?:\\[(\\d+)\\])?(?:\\.(name|of|limit|window|models|enforce)\\S*)? (.*)$`,
  's',
)

/** Returns undefined if the error is not about one field. */
export function fieldErrorOf({ status, message }: ApiError): FieldError | undefined {
  const [, before = '', field, index, part, end = ''] = about.exec(message) ?? []
  if (field === undefined || ![400, 403].includes(status)) return undefined
  const words = before.replace('widen caps', 'loosen restrictions')
  const rest = end
    .replace('must NOT have fewer than 1 characters', 'must not be empty')
    .replace(/must NOT have more than (\d+) characters/, 'must have at most $1 characters')
  if (index === undefined) return { field, text: `${words}${fieldNames[field as Field]} ${rest}` }
  const place = { field, index: Number(index), part }
  if (field === 'limits')
    return { ...place, text: `${words}${partNames[part ?? ''] ?? 'It'} ${rest}` }
  // Every other list is a text with a line per entry.
  const line = `Line ${place.index + 1}${part ? `: the ${part === 'limit' ? 'number' : 'time'}` : ''}`
  return { ...place, text: `${words}${line} ${rest}` }
}

type Field = keyof typeof fieldNames

/** The fields of an entry of `limits` in the words of forms. */
const partNames: Readonly<Record<string, string>> = {
  name: 'The name',
  of: 'What it counts',
  limit: 'The amount',
  window: 'The time',
  models: 'The models',
  enforce: 'Only count',
}

export const FieldErrorContext = createContext<FieldError | undefined>(undefined)

/** The error of a field, by its name in the API; for `limits`, of the list as a whole. */
export function useFieldError(field: Field): string | undefined {
  const error = useContext(FieldErrorContext)
  const isOfEntry = field === 'limits' && error?.index !== undefined
  return error?.field === field && !isOfEntry ? error.text : undefined
}

/** The error of one entry of a list. */
export function useEntryError(field: Field, index: number): FieldError | undefined {
  const error = useContext(FieldErrorContext)
  return error?.field === field && error.index === index ? error : undefined
}

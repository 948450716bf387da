/** Errors of the API at the field of the form that they are about, in the words of the page. */

import { createContext, useContext } from 'react'
import type { ApiError } from '../api.ts'

export interface FieldError {
  readonly field: string
  readonly text: string
  /** Of a list: which entry, and which of its fields. */
  readonly index?: number
  readonly part?: string | undefined
}

/** What a form calls the fields of the API. */
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

/** undefined: the error is not about one field. */
export function fieldErrorOf({ status, message }: ApiError): FieldError | undefined {
  const [, before = '', field, index, part, end = ''] = about.exec(message) ?? []
  if (field === undefined || ![400, 403].includes(status)) return undefined
  const words = before.replace('widen caps', 'loosen restrictions')
  const rest = end.replace('must NOT have fewer than 1 characters', 'must not be empty')
  if (index === undefined) return { field, text: `${words}${fieldNames[field as Field]} ${rest}` }
  const place = { field, index: Number(index), part }
  if (field === 'limits')
    return { ...place, text: `${words}${partNames[part ?? ''] ?? 'It'} ${rest}` }
  // Every other list is a text with a line for each entry.
  const line = `Line ${place.index + 1}${part ? `: the ${part === 'limit' ? 'number' : 'time'}` : ''}`
  return { ...place, text: `${words}${line} ${rest}` }
}

type Field = keyof typeof fieldNames

/** What a form calls the fields of an entry of `limits`. */
const partNames: Readonly<Record<string, string>> = {
  name: 'The name',
  of: 'What it counts',
  limit: 'The amount',
  window: 'The time',
  models: 'The models',
  enforce: 'Only count',
}

export const FieldErrorContext = createContext<FieldError | undefined>(undefined)

/** The error of a field, by its name in the API; of `limits` as a whole. */
export function useFieldError(field: Field): string | undefined {
  const error = useContext(FieldErrorContext)
  const isOfEntry = field === 'limits' && error?.index !== undefined
  return error?.field === field && !isOfEntry ? error.text : undefined
}

/** That of one entry of a list. */
export function useEntryError(field: Field, index: number): FieldError | undefined {
  const error = useContext(FieldErrorContext)
  return error?.field === field && error.index === index ? error : undefined
}

/** Errors of the API at the field of the form that they are about, in the words of the page. */

import { createContext, useContext } from 'react'
import type { ApiError } from '../api.ts'

export interface FieldError {
  readonly field: string
  readonly text: string
}

/** What a form calls the fields of the API. */
export const fieldNames = {
  name: 'Name',
  description: 'Description',
  labels: 'Labels',
  models: 'Models',
  tokenRateLimits: 'Token limits',
  allowedAddresses: 'Networks',
  expiresIn: 'Lifetime',
  subscription: 'Subscription',
} as const

const about = new RegExp(
  `^(.*?: )?(${Object.keys(fieldNames).join('|')})(?:\\[(\\d+)\\])?(?:\\.(limit|window))? (.*)$`,
  's',
)

/** undefined: the error is not about one field. */
export function fieldErrorOf({ status, message }: ApiError): FieldError | undefined {
  const [, before = '', field, index, part, rest] = about.exec(message) ?? []
  if (field === undefined || ![400, 403].includes(status)) return undefined
  // A list is a text with a line for each entry.
  const line =
    index !== undefined &&
    `Line ${Number(index) + 1}${part ? `: the ${part === 'limit' ? 'number' : 'time'}` : ''}`
  const what = line || fieldNames[field as keyof typeof fieldNames]
  return { field, text: `${before}${what} ${rest}`.replace('widen caps', 'loosen restrictions') }
}

export const FieldErrorContext = createContext<FieldError | undefined>(undefined)

/** The error of a field, by its name in the API. */
export function useFieldError(field: keyof typeof fieldNames): string | undefined {
  const error = useContext(FieldErrorContext)
  return error?.field === field ? error.text : undefined
}

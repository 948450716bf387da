/** The fields of a key that its holder chooses: their schemas, and the rules beyond them. */

import { invalidRequest } from '../../formats/errors.ts'
import { hasControlCharacters, type Labels, problemOfLabels } from '../../formats/labels.ts'
import { requirePlainText } from '../http/body.ts'

/** Keys from before this limit keep longer names. */
const maxNameLength = 128
const maxDescriptionLength = 1_024

/**
 * The name of a user or of a subscription in a request, which becomes a part of a line of the audit trail. No identity
 * token has a longer one, unless the prefix of its provider is as long again.
 */
export const requestedNameField = { type: ['string', 'null'], maxLength: 2_048 } as const

export const nameField = {
  type: ['string', 'null'],
  description: `At most ${maxNameLength} characters, without control characters; blanks around it are removed.`,
  examples: ['my laptop'],
} as const

export const descriptionField = {
  type: ['string', 'null'],
  maxLength: maxDescriptionLength,
} as const

/** `Labels` in a request. */
export const labelsField = {
  title: 'NewLabels',
  type: ['object', 'null'],
  additionalProperties: { type: 'string' },
  description:
    'At most 50; names like "team" or "example.com/team" of at most 128 characters, values of 1 to 1,024.',
  examples: [{ team: 'search' }],
} as const

/** The name without blanks around it; undefined if nothing is left. Throws `invalid_request`. */
export function readName(raw: string | null | undefined): string | undefined {
  const name = raw?.trim()
  if (!name) return undefined
  requirePlainText('name', name)
  if ([...name].length > maxNameLength) {
    throw invalidRequest(`name must have at most ${maxNameLength} characters.`)
  }
  if (hasControlCharacters(name)) throw invalidRequest('name must not hold control characters.')
  return name
}

/** The labels; throws `invalid_request`, naming the field. */
export function readLabels(field: string, labels: Labels | null | undefined): Labels {
  const problem = problemOfLabels(labels ?? {})
  if (problem !== undefined) throw invalidRequest(`${field} ${problem}`)
  return labels ?? {}
}

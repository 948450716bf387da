/** What the revoking endpoints have in common. */

import { type ErrorCode, ServiceError } from '../../formats/errors.ts'

const unsure =
  'The key store did not answer: the revocation may or may not have been done. Repeat it until it is answered.'

const codes: ReadonlySet<ErrorCode> = new Set(['store_unavailable', 'store_slow'])

/**
 * The revocation's result. After an outage in its middle, the error says that the result is
 * unknown.
 */
export async function orUnsure<T>(revocation: Promise<T>, message = unsure): Promise<T> {
  try {
    return await revocation
  } catch (error) {
    if (!(error instanceof ServiceError) || !codes.has(error.code)) throw error
    throw new ServiceError(error.code, { message, cause: error.cause })
  }
}

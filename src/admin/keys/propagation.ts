/** Common parts of the endpoints that revoke. */

import { type ErrorCode, ServiceError } from '../../formats/errors.ts'
import { integer, object, optional, string, strings } from '../http/schema.ts'

/** Whether every replica has applied a revocation, or another change; our addition to the contract. */
export const propagationSchema = {
  description: 'Which replicas have applied the change, after waiting at most a second for all.',
  ...object('Propagation', {
    state: string(
      'confirmed: every replica applies it; none accepts a revoked key, not even after a restored backup. pending: the others will apply it, or stop serving, by themselves.',
      { enum: ['confirmed', 'pending'] },
    ),
    replicas: integer('Number of replicas that may be serving, including the responding one.', {
      minimum: 1,
      examples: [2],
    }),
    acknowledged: { type: 'integer', minimum: 0, examples: [2] },
    waitingFor: optional(
      strings(
        'Names of the replicas that have not acknowledged it, and of a revocation log that cannot be written; only if pending.',
      ),
    ),
  }),
} as const

const unsure =
  'The key store did not respond: the revocation may or may not have been done. Repeat it until there is a response.'

const readOnly =
  'The key store is read-only, as during a failover, so nothing was changed; try again in a few seconds.'

const codes: ReadonlySet<ErrorCode> = new Set(['store_unavailable', 'store_slow'])

/**
 * The revocation's result. After an outage in its middle, the error says that the result is
 * unknown, unless the server refused it.
 */
export async function orUnsure<T>(revocation: Promise<T>, message = unsure): Promise<T> {
  try {
    return await revocation
  } catch (error) {
    if (!(error instanceof ServiceError) || !codes.has(error.code)) throw error
    const { code, cause } = error
    // SQLSTATE of a server that refuses all writes.
    const isReadOnly = cause instanceof Error && 'code' in cause && cause.code === '25006'
    throw new ServiceError(code, { message: isReadOnly ? readOnly : message, cause })
  }
}

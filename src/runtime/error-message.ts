import { ServiceError } from '../formats/errors.ts'

/**
 * The message of any thrown value. An AggregateError (a connection to a host name with several addresses) has no
 * message of its own, but one error per address.
 */
export function errorMessage(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(errorMessage).join(', ')
  }
  return error instanceof Error ? error.message : String(error)
}

/**
 * For the log: of a refusal, the cause that its message hides from callers. The words of Redis' client for a command without
 * a connection are about its own options.
 */
export function causeMessage(error: unknown): string {
  const text = errorMessage(error instanceof ServiceError ? (error.cause ?? error) : error)
  const isClosed =
    /^(Stream isn't writeable|Cluster isn't ready|Connection is closed|Reached the max retries)/
  return isClosed.test(text) ? connectionClosed : text
}

/** The cause of a command that was not sent. */
export const connectionClosed = 'the connection was closed'

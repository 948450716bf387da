/**
 * The message of whatever was thrown. An AggregateError (a connection to a host name with several
 * addresses) has no message of its own, but one error per address.
 */
export function errorMessage(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(errorMessage).join(', ')
  }
  return error instanceof Error ? error.message : String(error)
}

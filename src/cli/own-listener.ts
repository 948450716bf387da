/** Requests of a command to the listeners of the service on this machine. */

import { readResponseBody, requestOptionsOf, sendRequest } from '../runtime/http-request.ts'
import type { Address } from '../settings/config.ts'

const responseWithinMs = 10_000
/** About the size of a list of ten thousand resources, in bytes. */
const maxBytes = 64 * 2 ** 20

/**
 * The body of a response to `path` with its status; rejects if there is none within 10 s. `isSecure` says whether the
 * listener has TLS, if it is not a socket.
 */
export async function requestOwnListener(
  address: Address,
  path: string,
  { isSecure = false, method = 'GET' } = {},
): Promise<{ readonly status: number; readonly body: string }> {
  const hasTls = 'port' in address && isSecure
  const response = await sendRequest(hasTls ? 'https://localhost' : 'http://localhost', {
    ...requestOptionsOf(address),
    path,
    method,
    signal: AbortSignal.timeout(responseWithinMs),
    // The certificate is for a public name; nothing secret is sent to this address.
    ...(hasTls && { rejectUnauthorized: false }),
  })
  const body = await readResponseBody(response, maxBytes)
  if (body === undefined) throw new Error('the response is too long')
  return { status: response.statusCode ?? 0, body }
}

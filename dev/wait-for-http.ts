import { setTimeout as delay } from 'node:timers/promises'
import { type Address, formatAddress } from '../src/formats/address.ts'
import { requestOptionsOf, sendRequest } from '../src/runtime/http-request.ts'
import { StartError } from '../src/runtime/start-error.ts'

const pollMs = 50
const withinMs = 60_000
const responseWithinMs = 2_000

/**
 * Resolves when `path` at this address of this machine returns 200. Rejects with a StartError after the
 * timeout, or on the signal.
 */
export async function waitForHttp(
  name: string,
  address: Address,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const deadline = Date.now() + withinMs
  let last = 'no answer'
  while (!signal.aborted && Date.now() < deadline) {
    try {
      const timeout = AbortSignal.timeout(responseWithinMs)
      const asked = { path, signal: AbortSignal.any([signal, timeout]) }
      const response = await sendRequest('http://localhost', {
        ...requestOptionsOf(address),
        ...asked,
      })
      response.destroy()
      if (response.statusCode === 200) return
      last = `status ${response.statusCode}`
    } catch {
      // It is not listening yet, or has ended: the timeout and the process's supervisor decide.
    }
    await delay(pollMs)
  }
  throw new StartError(
    `${name} was not ready in ${withinMs / 1_000} s (${path} at ${formatAddress(address)}: ${last}).`,
  )
}

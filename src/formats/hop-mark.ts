/**
 * The mark of an installation, which its gateway sets on every request to a model. A request that
 * arrives with it has been through the gateway already: the model's address leads back to us.
 */

import { createHash } from 'node:crypto'

/** The header with the mark. */
export const hopHeader = 'x-tollgate-hop'

/** The mark of an installation with this public URL. Model servers see it, so it identifies no one. */
export function hopMark(gatewayUrl: string): string {
  return createHash('sha256').update(`${hopHeader} ${gatewayUrl}`).digest('hex').slice(0, 32)
}

/** Whether a request with this value of the header comes from the gateway with this mark. */
export function isOwnHop(
  raw: string | readonly string[] | undefined,
  mark: string | undefined,
): boolean {
  return mark !== undefined && raw?.includes(mark) === true
}

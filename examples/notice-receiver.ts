/**
 * Receives notices: `NOTIFY_SECRET=whsec_… npx node examples/notice-receiver.ts`, with
 * `NOTIFY_URL=http://127.0.0.1:9000/` for the service.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'

/** A notice may be repeated for a day; each time it gets a new signature, so an older one is not valid. */
const toleranceSeconds = 300

/** Whether a body was signed with this secret (`whsec_…`) just now. `now` in milliseconds. */
export function isSigned(
  secret: string,
  headers: IncomingHttpHeaders,
  body: string,
  now = Date.now(),
): boolean {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': given } = headers
  if (!(Math.abs(now / 1_000 - Number(timestamp)) <= toleranceSeconds)) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest()
  return String(given)
    .split(' ')
    .some((each) => {
      const signature = Buffer.from(each.replace(/^v1,/, ''), 'base64')
      return signature.length === expected.length && timingSafeEqual(signature, expected)
    })
}

if (import.meta.main) {
  /** In production: in a database, for a day. */
  const seen = new Set<unknown>()
  createServer(async (request, response) => {
    const body = await text(request)
    const { 'webhook-id': id } = request.headers
    if (!isSigned(process.env.NOTIFY_SECRET ?? '', request.headers, body)) {
      response.writeHead(401).end()
      return
    }
    // A notice whose response was lost is repeated with the same id.
    if (!seen.has(id)) console.log(body)
    seen.add(id)
    response.writeHead(204).end()
  }).listen(9_000, '127.0.0.1')
}

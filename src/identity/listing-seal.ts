/**
 * The address of a client on whose behalf the service itself requests a model's list at the gateway, which sees only
 * the service's address. Sealed with a secret that the processes share, because any client may send the header.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'

export type ListingSeal = ReturnType<typeof createListingSeal>

/** Exceeds the time-out of a list plus the difference of the processes' clocks. */
const validMs = 60_000

export function createListingSeal(secret: Buffer) {
  const digestOf = (address: string, authorization: string, at: string): Buffer =>
    createHmac('sha256', secret)
      .update(JSON.stringify([address, authorization, at]))
      .digest()

  return {
    /** The header's value, for a request with this `authorization`; `now` in milliseconds since the epoch. */
    close(address: string, authorization: string, now: number) {
      const at = String(Math.floor(now))
      return `${at};${address};${digestOf(address, authorization, at).toString('base64url')}`
    },
    /** The address, or undefined if it was not sealed for this `authorization` within the last minute. */
    open(raw: string, authorization: string, now: number) {
      const [, at = '', address = '', seal = ''] =
        /^(\d{1,15});([0-9a-f.:]{2,45});([\w-]{43})$/.exec(raw) ?? []
      if (at === '' || Math.abs(now - Number(at)) > validMs) return undefined
      const expected = digestOf(address, authorization, at)
      return timingSafeEqual(Buffer.from(seal, 'base64url'), expected) ? address : undefined
    },
  }
}

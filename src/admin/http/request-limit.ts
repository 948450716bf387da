/** Counts the requests of each owner within a window, in bounded memory. */

import type { FastifyReply } from 'fastify'
import { ServiceError } from '../../formats/errors.ts'

/** This many requests within this many milliseconds. */
export interface RequestRate {
  readonly limit: number
  readonly windowMs: number
}

interface Window {
  used: number
  readonly endsAt: number
}

/** About 4 MB of owners with ordinary names. */
const defaultOwners = 20_000

/**
 * A limit per owner; a window begins with its first request. Beyond `owners` of them, those with the fewest requests
 * are dropped. So a flood of new owners does not reset one near its limit, and a dropped owner loses nothing.
 */
export function createRequestLimit(
  { limit, windowMs }: RequestRate,
  owners: number = defaultOwners,
) {
  const windows = new Map<string, Window>()
  // A clock that was set back must not lengthen a window.
  const isOpen = ({ endsAt }: Window, now: number) => endsAt > now && endsAt - now <= windowMs

  /** Frees half of the space, so that the cost per new owner is constant. */
  function makeRoom(now: number): void {
    for (const [owner, window] of windows) if (!isOpen(window, now)) windows.delete(owner)
    const excess = windows.size - Math.floor(owners / 2)
    if (excess <= 0) return
    const fewestFirst = [...windows].sort(([, one], [, other]) => one.used - other.used)
    for (const [owner] of fewestFirst.slice(0, excess)) windows.delete(owner)
  }

  return {
    /**
     * Counts a request. Returns 0 within the limit, otherwise the milliseconds until the owner may
     * retry; refused requests are not counted. `now` is in milliseconds.
     */
    take(owner: string, now: number): number {
      let window = windows.get(owner)
      if (window === undefined || !isOpen(window, now)) {
        if (window === undefined && windows.size >= owners) makeRoom(now)
        window = { used: 0, endsAt: now + windowMs }
        windows.set(owner, window)
      }
      if (window.used >= limit) return window.endsAt - now
      window.used += 1
      return 0
    },
  }
}

/** Refuses a request that may only be made after this wait (ms). */
export function enforceWait(reply: FastifyReply, waitMs = 0): void {
  if (waitMs === 0) return
  reply.header('retry-after', Math.ceil(waitMs / 1_000))
  throw new ServiceError('too_many_requests')
}

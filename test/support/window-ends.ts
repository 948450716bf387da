import { parseWindow, toEndTimestamp } from '../../src/formats/time.ts'
import { userInLines } from '../../src/ratelimit/rules/counter-key.ts'
import { boundsAt } from '../../src/ratelimit/rules/windows.ts'

/** The end of an owner's window (`1m`) at this instant, in milliseconds since the epoch. */
export function endOf(window: string, owner: string, at: number): number {
  return boundsAt({ ms: parseWindow(window) as number }, owner, at).end
}

/** The end of an owner's window, as responses show it. */
export function shownEnd(window: string, owner: string, at: number): string {
  return toEndTimestamp(endOf(window, owner, at))
}

/** The start of an owner's window, as responses show it: the end of the previous one. */
export function shownStart(window: string, owner: string, at: number): string {
  return toEndTimestamp(boundsAt({ ms: parseWindow(window) as number }, owner, at).start)
}

/** Longer than a test file may run. */
const lastingMs = 660_000

/**
 * A user of this name, perhaps with a suffix, whose current windows of one hour and of several do not end while a test
 * file runs that begins now.
 */
export function lasting(user: string): string {
  for (let i = 1; ; i += 1) {
    const name = i === 1 ? user : `${user}-${i}`
    if (lasts(userInLines(name))) return name
  }
}

/** Whether it is such a user or key: every owner of limits has windows. */
export function lasts(owner: string): boolean {
  const now = Date.now()
  return endOf('1h', owner, now) - now >= lastingMs
}

/** One of a few hundred users whose current window lasts at least this long (milliseconds). */
export function withTimeIn(window: string, leftMs: number, newUser: () => string): string {
  for (let tries = 0; tries < 400; tries += 1) {
    const [user, now] = [newUser(), Date.now()]
    if (endOf(window, user, now) - now >= leftMs) return user
  }
  throw new Error(`no user has ${leftMs} ms left of ${window}`)
}

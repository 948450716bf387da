import { spanAt } from '../../src/core/counting/windows.ts'
import { parseWindow } from '../../src/core/formats/duration.ts'
import { toEndTimestamp } from '../../src/core/formats/timestamp.ts'

/** When an owner's window (`1m`) of this instant ends, in milliseconds since the epoch. */
export function endOf(window: string, owner: string, at: number): number {
  return spanAt({ ms: parseWindow(window) as number }, owner, at).end
}

/** The same, as answers show it. */
export function shownEnd(window: string, owner: string, at: number): string {
  return toEndTimestamp(endOf(window, owner, at))
}

/** One of a few hundred users whose present window is not over for so long (milliseconds). */
export function withTimeIn(window: string, leftMs: number, newUser: () => string): string {
  for (let tries = 0; tries < 400; tries += 1) {
    const [user, now] = [newUser(), Date.now()]
    if (endOf(window, user, now) - now >= leftMs) return user
  }
  throw new Error(`no user has ${leftMs} ms left of ${window}`)
}

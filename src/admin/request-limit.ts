/** Requests of one owner within a window, counted in bounded memory. */

/** So many requests within so many milliseconds. */
export interface Rate {
  readonly limit: number
  readonly windowMs: number
}

interface Window {
  used: number
  readonly endsAt: number
}

/** About 4 MB of owners with ordinary names. */
const usualOwners = 20_000

/**
 * A limit for each owner; a window begins with its first request. Beyond `owners` of them those with
 * the fewest requests are forgotten: a flood of new owners frees nobody who is near the limit, and
 * who is forgotten has lost nothing.
 */
export function createRequestLimit({ limit, windowMs }: Rate, owners: number = usualOwners) {
  const windows = new Map<string, Window>()
  // A clock that was set back must not make a window longer than it is.
  const isOpen = ({ endsAt }: Window, now: number) => endsAt > now && endsAt - now <= windowMs

  /** Half of the room, so that the work is a constant for each owner that comes. */
  function makeRoom(now: number): void {
    for (const [owner, window] of windows) if (!isOpen(window, now)) windows.delete(owner)
    const excess = windows.size - Math.floor(owners / 2)
    if (excess <= 0) return
    const fewestFirst = [...windows].sort(([, one], [, other]) => one.used - other.used)
    for (const [owner] of fewestFirst.slice(0, excess)) windows.delete(owner)
  }

  return {
    /**
     * Counts a request. Answers 0 when it is within the limit, else the milliseconds after which its
     * owner may ask again; what is refused is not counted. `now` is in milliseconds.
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

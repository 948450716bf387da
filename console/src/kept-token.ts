/**
 * Stores the identity token of this tab (sessionStorage), so that a reload does not lose it: until its owner signs out,
 * it expires or the service refuses it. Never stores an API key, and nothing at all if the service forbids it.
 */

import { storage } from './storage.ts'

const keptUnder = 'tollgate-token'
/** Maximum duration of a timer in browsers, in milliseconds. */
const longestMs = 2 ** 31 - 1

interface Kept {
  readonly token: string
  /** The expiry on this machine's clock, in milliseconds since the epoch, if the token has one. */
  readonly expiresAt: number | undefined
}

let mayKeep = false

/** Whether the service allows storing. Until that is known, nothing is stored. */
export function allowKeeping(isAllowed: boolean): void {
  mayKeep = isAllowed
  if (!isAllowed) forgetToken()
}

export function keepToken(token: string, expiresAt: number | undefined): void {
  if (!mayKeep) return
  const kept: Kept = { token, expiresAt }
  storage.setItem(keptUnder, JSON.stringify(kept))
  forgetAt(kept)
}

/** The token, if there is one that has not expired. */
export function keptToken(): string | undefined {
  const text = storage.getItem(keptUnder)
  if (text === null) return undefined
  const kept: Kept = JSON.parse(text)
  if (kept.expiresAt !== undefined && kept.expiresAt <= Date.now()) {
    forgetToken()
    return undefined
  }
  forgetAt(kept)
  return kept.token
}

export function forgetToken(): void {
  storage.removeItem(keptUnder)
}

/** Discards the token when it expires, even while the page is not used. */
function forgetAt({ token, expiresAt }: Kept): void {
  if (expiresAt === undefined) return
  const waitMs = Math.min(expiresAt - Date.now(), longestMs)
  setTimeout(() => {
    if (keptToken() === token && expiresAt <= Date.now()) forgetToken()
  }, waitMs)
}

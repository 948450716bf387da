/** Signing in to the sample of `npm start`, with the code of the link that it prints. */

import { type ApiError, exchange } from './api.ts'
import { storage } from './storage.ts'

const keptUnder = 'tollgate-sample'
const inFragment = /^#sample=([\w-]{1,128})$/

takeCode()
// A link that is followed in a tab with this page only changes the fragment.
addEventListener('hashchange', () => {
  if (takeCode()) location.reload()
})

/** The sample users, and a description of each. */
export const sampleRoles: Readonly<Record<string, string>> = {
  alice: 'A user in team A, with three subscriptions.',
  bob: 'A user in team B, with one subscription.',
  admin: "An administrator: everybody's usage, two weeks of it after tollgate demo.",
}

/** Removes the code from the address, where it could be read over a shoulder or copied with the link. */
function takeCode(): boolean {
  const code = inFragment.exec(location.hash)?.[1]
  if (code === undefined) return false
  storage.setItem(keptUnder, code)
  history.replaceState(null, '', location.pathname + location.search)
  return true
}

/** Whether the link has opened this tab. */
export function hasSampleCode(): boolean {
  return storage.getItem(keptUnder) !== null
}

/** The token of a sample user. Rejects with an ApiError; discards a code of an earlier start. */
export function signInToSample(user: string): Promise<string> {
  const code = storage.getItem(keptUnder) ?? ''
  return exchange('/console/sign-in/sample', { code, user }).catch((error: ApiError) => {
    if (error.status === 401) storage.removeItem(keptUnder)
    throw error
  })
}

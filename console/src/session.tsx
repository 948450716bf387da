/** The session: who is signed in. */

import { createContext, useContext } from 'react'
import { ApiError, jsonOf, type Me, parse, send, textOf } from './api.ts'
import { hereAt } from './clock.ts'
import { keepToken } from './kept-token.ts'

export interface TextResponse {
  readonly text: string
  readonly headers: Headers
}

export interface Session {
  readonly me: Me
  /** The expiry of the identity token on this machine's clock, in milliseconds since the epoch, if it has one. */
  readonly expiresAt: number | undefined
  /** The credential, if it is an API key. */
  readonly ownKey: string | undefined
  /** Calls the API. Rejects with an ApiError; a refused credential ends the session. */
  readonly call: <Answer>(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Answer>
  /** Calls the API for a response of any type. */
  readonly read: (...request: Parameters<Session['call']>) => Promise<TextResponse>
  /** Called when the user signs out: calls in progress cannot end a later session. */
  readonly close: () => void
}

export const SessionContext = createContext<Session | undefined>(undefined)

export function useSession(): Session {
  const session = useContext(SessionContext)
  if (session === undefined) throw new Error('there is a session on every page')
  return session
}

const noToken =
  'This is no token: it contains spaces or characters that no token has. Copy it again.'

/** Asks the service for the user of the token, and stores an identity token for a reload. Rejects with an ApiError. */
export async function openSession(token: string, onEnd: () => void): Promise<Session> {
  // The browser would refuse to send it, which looks like an unreachable gateway.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new ApiError(0, 'unknown', noToken)
  let [isClosed, hasEnded] = [false, false]
  const read: Session['read'] = async (...request) => {
    // A hidden page would go on asking.
    if (hasEnded) throw new ApiError(401, 'credential_invalid', 'The session has ended.')
    try {
      const response = await send(token, ...request)
      return { text: await textOf(response), headers: response.headers }
    } catch (error) {
      if ((error as { status?: number }).status === 401 && !isClosed && !hasEnded) {
        hasEnded = true
        onEnd()
      }
      throw error
    }
  }
  const call: Session['call'] = async (...request) => parse((await read(...request)).text)
  const me = await jsonOf<Me>(await send(token, 'GET', '/v1/me'))
  const expiresAt = expiryOf(token)
  const ownKey = me.credential === 'api-key' ? token : undefined
  if (ownKey === undefined) keepToken(token, expiresAt)
  const close = () => {
    isClosed = true
  }
  return { me, expiresAt, ownKey, call, read, close }
}

/** The `exp` of a JWT; the service verifies it, the page only warns of it. */
function expiryOf(token: string): number | undefined {
  try {
    const [, payload = ''] = token.split('.')
    const { exp } = JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/')))
    return typeof exp === 'number' ? hereAt(exp * 1_000) : undefined
  } catch {
    return undefined
  }
}

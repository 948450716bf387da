/** Loads the data of a page when it opens and whenever its dependencies change. */

import { useCallback, useContext, useEffect, useRef, useState } from 'react'
import type { ApiError } from './api.ts'
import { SessionContext } from './session.tsx'

export interface Loaded<Value> {
  /** The last value, also while a newer one is loading; that of another key only for a moment. */
  readonly value: Value | undefined
  /** When it was read, in milliseconds since the epoch. */
  readonly at: number | undefined
  readonly error: ApiError | undefined
  readonly reload: () => void
}

/** Whether none of these has a value or an error yet. */
export function isWaitingFor(...all: readonly Loaded<unknown>[]): boolean {
  return all.every(({ value, error }) => value === undefined && error === undefined)
}

interface State<Value> {
  /** The key of the value and of the error. */
  readonly key: string
  readonly value?: Value | undefined
  readonly at?: number | undefined
  readonly error?: ApiError | undefined
}

/** How long the value of another key is shown: long enough that most changes of a filter do not flicker. */
const shownMs = 300
/** Interval between further attempts if the gateway does not respond and the data is otherwise read less often. */
const retryMs = 10_000

/**
 * `load` is called again when `key` or the session changes, when the page becomes visible again, since others may have
 * changed the data, and every `everyMs` while it is visible, unless the call before is still in progress: a slow gateway
 * would never deliver a value.
 */
export function useLoaded<Value>(
  key: string,
  load: () => Promise<Value>,
  everyMs?: number,
): Loaded<Value> {
  const [state, setState] = useState<State<Value>>({ key })
  const latest = useRef(load)
  latest.current = load
  const session = useContext(SessionContext)
  const turn = useRef(0)
  const inProgress = useRef(0)
  const isDown = useRef(false)

  const reload = useCallback(() => {
    turn.current += 1
    const mine = turn.current
    inProgress.current = mine
    const end = (next: (before: State<Value>) => State<Value>, isFailed: boolean) => {
      if (mine !== turn.current) return
      inProgress.current = 0
      isDown.current = isFailed
      setState(next)
    }
    latest.current().then(
      (value) => end(() => ({ key, value, at: Date.now() }), false),
      (error) =>
        end((before) => ({ ...(before.key === key && before), key, error }), isOutage(error)),
    )
  }, [key])

  // biome-ignore lint/correctness/useExhaustiveDependencies: what a session could not read, the next one may
  useEffect(() => {
    reload()
    const forget = setTimeout(
      () => setState((before) => (before.key === key ? before : { key })),
      shownMs,
    )
    const again = () => {
      if (!document.hidden && inProgress.current === 0) reload()
    }
    const timer = everyMs === undefined ? undefined : setInterval(again, everyMs)
    const retry = setInterval(() => isDown.current && again(), retryMs)
    document.addEventListener('visibilitychange', again)
    return () => {
      clearTimeout(forget)
      clearInterval(timer)
      clearInterval(retry)
      document.removeEventListener('visibilitychange', again)
    }
  }, [key, reload, everyMs, session])

  const { value, at } = state
  return { value, at, error: state.key === key ? state.error : undefined, reload }
}

/** Whether a later attempt may succeed. */
export function isOutage({ status, code }: ApiError): boolean {
  return code === 'unreachable' || code === 'interrupted' || status === 429 || status >= 500
}

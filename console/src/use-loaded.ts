/** Loads the data of a page when it opens and whenever its dependencies change. */

import { useCallback, useEffect, useRef, useState } from 'react'
import type { ApiError } from './api.ts'

export interface Loaded<Value> {
  /** The last value, also while a newer one is loading. */
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
  readonly value?: Value | undefined
  readonly at?: number | undefined
  readonly error?: ApiError | undefined
}

/** `load` is called again when `key` changes, and every `everyMs` while the page is visible. */
export function useLoaded<Value>(
  key: string,
  load: () => Promise<Value>,
  everyMs?: number,
): Loaded<Value> {
  const [state, setState] = useState<State<Value>>({})
  const latest = useRef(load)
  latest.current = load
  const turn = useRef(0)

  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for what is loaded
  const reload = useCallback(() => {
    turn.current += 1
    const mine = turn.current
    latest.current().then(
      (value) => mine === turn.current && setState({ value, at: Date.now() }),
      (error) => mine === turn.current && setState(({ value, at }) => ({ value, at, error })),
    )
  }, [key])

  useEffect(() => {
    reload()
    if (everyMs === undefined) return undefined
    const timer = setInterval(() => document.hidden || reload(), everyMs)
    return () => clearInterval(timer)
  }, [reload, everyMs])

  return { value: state.value, at: state.at, error: state.error, reload }
}

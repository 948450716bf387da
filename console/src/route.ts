/** The page's location: a path below /console, and the query, which holds the state of tables. */

import { useSyncExternalStore } from 'react'

export interface Place {
  /** Without `/console/` and without slashes around it; empty for the start page. */
  readonly path: string
  readonly query: URLSearchParams
}

const moved = new EventTarget()
let place = read()

/** The address that the back button does not leave. */
let kept: string | undefined
/** How many results of `stay` have not been called yet. */
let holds = 0

addEventListener('popstate', () => {
  if (kept === undefined) arrive()
  else history.pushState(null, '', kept)
})

/** Keeps the page that is open until the result is called, and those of all other calls. */
export function stay(): () => void {
  kept = location.pathname + location.search
  holds += 1
  return () => {
    holds -= 1
    if (holds > 0) return
    kept = undefined
    for (const act of waiting.splice(0)) act()
  }
}

const waiting: (() => void)[] = []

/** Acts now, or when the page that is open need not stay any longer. */
export function whenLeft(act: () => void): void {
  if (kept === undefined) act()
  else waiting.push(act)
}

function read(): Place {
  const path = location.pathname.replace(/^\/console\/?|\/+$/g, '')
  return { path, query: new URLSearchParams(location.search) }
}

function arrive(): void {
  place = read()
  moved.dispatchEvent(new Event('moved'))
}

/** The address of a path below /console. */
export function addressOf(path: string, query?: Readonly<Record<string, string>>): string {
  const search = new URLSearchParams(query).toString()
  return `/console/${path}${search && `?${search}`}`
}

export function go(address: string): void {
  history.pushState(null, '', address)
  arrive()
}

/** The current address with a changed query; an empty value removes its name. */
export function addressHere(changes: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(location.search)
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') query.delete(name)
    else query.set(name, value)
  }
  const search = query.toString()
  return location.pathname + (search && `?${search}`)
}

/** Changes the query of the current address. */
export function refine(changes: Readonly<Record<string, string>>): void {
  history.replaceState(null, '', addressHere(changes))
  arrive()
}

export function usePlace(): Place {
  return useSyncExternalStore(
    (listener) => {
      moved.addEventListener('moved', listener)
      return () => moved.removeEventListener('moved', listener)
    },
    () => place,
  )
}

/** Times in the reader's zone, with UTC on hover. */

import { useSyncExternalStore } from 'react'
import { now } from '../clock.ts'
import { dateLocale } from './locale.ts'

const full = new Intl.DateTimeFormat(dateLocale, { dateStyle: 'medium', timeStyle: 'short' })
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'always' })

/** A unit in seconds, and the number of units from which it is used: `30 days`, but 90 seconds are a minute. */
const units = [
  ['year', 365 * 86_400, 2],
  ['month', 30 * 86_400, 3],
  ['day', 86_400, 1],
  ['hour', 3_600, 1],
  ['minute', 60, 1],
  ['second', 1, 0],
] as const

/** `in 30 days`, `2 minutes ago`. */
export function distance(at: number, from = now()): string {
  const seconds = Math.round((at - from) / 1_000)
  const [unit, length] =
    units.find(([, each, least]) => Math.abs(seconds) >= each * least) ?? units[5]
  return relative.format(Math.round(seconds / length), unit)
}

/** `at` is RFC 3339. */
export function Time({ at, isDistance }: { readonly at: string; readonly isDistance?: boolean }) {
  const ms = Date.parse(at)
  const utc = `${at.replace('T', ' ').replace('Z', '')} UTC`
  return (
    <time dateTime={at} title={isDistance ? `${full.format(ms)}; ${utc}` : utc}>
      {isDistance ? <Distance at={ms} /> : full.format(ms)}
    </time>
  )
}

function Distance({ at }: { readonly at: number }) {
  useTick()
  return distance(at)
}

const tickMs = 10_000
const ticked = new EventTarget()
setInterval(() => ticked.dispatchEvent(new Event('tick')), tickMs)

/** Renders the component again every ten seconds, for what depends on the time. */
export function useTick(): void {
  useSyncExternalStore(onTick, () => Math.floor(Date.now() / tickMs))
}

function onTick(listener: () => void): () => void {
  ticked.addEventListener('tick', listener)
  return () => ticked.removeEventListener('tick', listener)
}

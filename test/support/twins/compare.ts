/** The differences between two answers to the same request, except ids and times. */

import { gunzipSync } from 'node:zlib'
import type { Recorded } from './recording-model.ts'

export interface SeenAnswer {
  /** 0: the connection broke before an answer. */
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Buffer
  /** Whether it is complete. */
  readonly isWhole: boolean
}

/** One gateway's results for a request: its answer, and what the model server received. */
export interface Seen {
  readonly answer: SeenAnswer
  readonly received: readonly Recorded[]
}

/** Tolerance in seconds for values that depend on the time. */
const apartS = 2

/**
 * Each difference as one line; empty if there is none. With `isEstimated` the rest of limits is not compared, since
 * charged estimates depend on the requests that a process has seen.
 */
export function differences(one: Seen, other: Seen, isEstimated = false): readonly string[] {
  const found: string[] = []
  const compare = (what: string, a: unknown, b: unknown): void => {
    if (a !== b) found.push(`${what}: ${show(a)} / ${show(b)}`)
  }
  compare('status', one.answer.status, other.answer.status)
  compare('whole', one.answer.isWhole, other.answer.isWhole)
  const [mine, its] = isEstimated
    ? [withoutRest(one.answer), withoutRest(other.answer)]
    : [one.answer, other.answer]
  found.push(...inHeaders('header', mine.headers, its.headers))
  if (mine.isWhole && its.isWhole) found.push(...inTexts('body', textOf(mine), textOf(its)))
  compare('requests at the model', one.received.length, other.received.length)
  for (const [at, mine] of one.received.entries()) {
    const its = other.received[at]
    if (its === undefined) continue
    compare('method at the model', mine.method, its.method)
    compare('path at the model', mine.path, its.path)
    found.push(...inHeaders('header at the model', mine.headers, its.headers))
    compare('body at the model', mine.body.toString('latin1'), its.body.toString('latin1'))
  }
  return found
}

/** Of these headers only the format is compared. */
const ofTheRequest = new Set([
  ...['date', 'x-request-id', 'request-id', 'x-envoy-upstream-service-time', 'content-length'],
  ...['traceparent', 'tracestate', 'x-forwarded-for'],
])

type Headers = readonly (readonly [string, string])[]

function inHeaders(what: string, one: Headers, other: Headers): readonly string[] {
  const [mine, its] = [sorted(one), sorted(other)]
  const names = (headers: Headers) => headers.map(([name]) => name).join(' ')
  if (names(mine) !== names(its)) return [`${what}s: ${names(mine)} / ${names(its)}`]
  return mine.flatMap(([name, value], at) => {
    const theirs = its[at]?.[1] ?? ''
    if (ofTheRequest.has(name)) return value !== '' && theirs !== '' ? [] : [`${what} ${name}`]
    return inTexts(`${what} ${name}`, value, theirs)
  })
}

function sorted(headers: Headers): Headers {
  return headers
    .map((each, at) => [each, at] as const)
    .sort(byName)
    .map(([each]) => each)
}

function byName(
  [a, first]: readonly [readonly [string, string], number],
  [b, second]: readonly [readonly [string, string], number],
): number {
  return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : first - second
}

const uuid = /[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/g
/** Times: `t=12`, `3m7s`, `in 12 s`, RFC 3339, and seconds since the epoch. */
const time =
  /\bt=\d+|\b(?:\d+h)?(?:\d+m)?\d+(?:ms|s)\b|\b\d+ seconds?\b|\b\d{4}-\d\d-\d\dT[\d:.]+Z|"created(?:_at)?":\d+|\b1[6-9]\d{8}\b/g

function inTexts(what: string, one: string, other: string): readonly string[] {
  const [mine, its] = [one, other].map((text) => text.replaceAll(uuid, '<id>')) as [string, string]
  if (mine === its) return []
  const [bare, bareToo] = [mine, its].map((text) => text.replaceAll(time, '<time>'))
  if (bare !== bareToo && !isOnlyNumber(what)) return [`${what}: ${cut(mine, its)}`]
  const times = [mine, its].map((text) => (isOnlyNumber(what) ? [text] : (text.match(time) ?? [])))
  const apart = (times[0] ?? []).filter((text, at) => {
    return !(Math.abs(secondsIn(text) - secondsIn(times[1]?.[at] ?? '')) <= apartS)
  })
  return apart.length === 0 ? [] : [`${what}: ${cut(mine, its)}`]
}

function isOnlyNumber(what: string): boolean {
  return what.endsWith('retry-after') || what.endsWith('x-tollgate-key-age')
}

function secondsIn(text: string): number {
  if (/^\d{4}-/.test(text)) return Date.parse(text) / 1_000
  const [, hours, minutes, rest, unit] =
    /^(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)(ms|s))?$/.exec(text) ?? []
  if (rest !== undefined || minutes !== undefined) {
    const seconds = Number(rest ?? 0) / (unit === 'ms' ? 1_000 : 1)
    return Number(hours ?? 0) * 3_600 + Number(minutes ?? 0) * 60 + seconds
  }
  return Number(/\d+/.exec(text)?.[0] ?? Number.NaN)
}

function withoutRest(answer: SeenAnswer): SeenAnswer {
  const headers = answer.headers.map(([name, value]) => {
    const isRest = /^(x-ratelimit|anthropic-ratelimit-tokens)-/.test(name)
    return [name, isRest ? 'x' : value.replaceAll(/\br=\d+/g, 'r=x')] as const
  })
  const body = answer.status === 429 ? Buffer.alloc(0) : answer.body
  return { ...answer, headers, body }
}

function textOf({ headers, body }: SeenAnswer): string {
  const isZipped = headers.some(([name, value]) => name === 'content-encoding' && value === 'gzip')
  return (isZipped ? gunzipSync(body) : body).toString('latin1')
}

function show(value: unknown): string {
  return typeof value === 'string' && value.length > 200 ? `${value.slice(0, 200)}…` : String(value)
}

/** Both texts from the first difference on. */
function cut(one: string, other: string): string {
  let at = 0
  while (at < one.length && one[at] === other[at]) at += 1
  const from = Math.max(0, at - 60)
  return [one, other].map((text) => show(text.slice(from))).join(' / ')
}

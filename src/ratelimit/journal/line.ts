/**
 * One line of the usage journal → the Usage of a response. The form is that of the access log
 * named `journal` in envoy/bootstrap.yaml.
 */

import { isObject } from '../../core/fields.ts'
import type { Usage } from '../../core/usage.ts'

/** A Usage that says which response it was. */
export type JournaledUsage = Usage & { readonly response: NonNullable<Usage['response']> }

/**
 * Before the beginning of a line: Envoy sorts the fields; an older form had no `bytes`, or no `group`
 * either. No string in a line can hold that, where the quotes would be escaped.
 */
const beforeLine = /(?=\{"(?:bytes|group|id)":)/

/**
 * The response of a line; none for one that is not of this form. Where Envoy was killed, or the disk
 * was full, a line was torn and the next follows it without a break: what is whole of them is read.
 */
export function parseLine(line: string): readonly JournaledUsage[] {
  const whole = parse(line)
  const parsed = whole === undefined ? line.split(beforeLine).map(parse) : [whole]
  return parsed.flatMap((fields) => (fields && toUsage(fields)) ?? [])
}

type Fields = Readonly<Record<string, unknown>>

function parse(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function toUsage(fields: Fields): JournaledUsage | undefined {
  const { id, user, subscription, model, status, start, ms, reported, bytes, group } = fields
  if (typeof id !== 'string' || id === '') return undefined
  if (typeof user !== 'string' || typeof subscription !== 'string') return undefined
  if (typeof model !== 'string' || typeof status !== 'number') return undefined
  if (typeof start !== 'string' || !/^\d{1,15}$/.test(start)) return undefined
  // Envoy writes null for what there is not; of a response that has ended there is a duration.
  if (ms !== null && !(typeof ms === 'number' && ms >= 0 && ms <= Number.MAX_SAFE_INTEGER)) {
    return undefined
  }
  return {
    user,
    subscription,
    model,
    status,
    bytes: typeof bytes === 'number' ? bytes : 0,
    reported: new Map(isObject(reported) ? Object.entries(reported) : []),
    ...(typeof group === 'string' && { group }),
    response: { id, endedAt: Number(start) + (ms ?? 0) },
  }
}

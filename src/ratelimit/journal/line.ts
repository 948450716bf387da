/**
 * One line of the usage journal → the Usage of a response. The format is that of the access logs
 * `journal` and `journal-json` in envoy/bootstrap.yaml.
 */

import { parseEstimate } from '../../core/decision/unreported.ts'
import { nothingReported, type Usage } from '../../core/decision/usage.ts'
import { isObject } from '../../core/formats/fields.ts'

/** A Usage with the identity of its response. */
export type JournaledUsage = Usage & {
  readonly response: NonNullable<Usage['response']>
  /** When its request came, in milliseconds since the epoch. */
  readonly startedAt: number
}

/**
 * Matches before the start of a line: `journal` starts with `id`; Envoy sorts the fields of JSON, and an
 * older format had no `bytes`, or no `group` either. No string in a line can contain this, because its
 * quotes would be escaped.
 */
const beforeLine = /(?=\{"(?:bytes|group|id)":)/

/**
 * The response of a line; none if the format does not match. If Envoy was killed or the disk was
 * full, a torn line may be followed directly by the next one; then the complete ones are read.
 */
export function parseLine(line: string): readonly JournaledUsage[] {
  return readLine(line).usages
}

/** The same, and whether the line was read to the last byte. */
export function readLine(line: string): {
  readonly usages: readonly JournaledUsage[]
  readonly isWhole: boolean
} {
  const whole = parse(line)
  if (whole !== undefined) {
    const usage = toUsage(whole)
    return usage === undefined ? noLine : { usages: [usage], isWhole: true }
  }
  const parsed = line.split(beforeLine).map(parse)
  return { usages: parsed.flatMap((fields) => (fields && toUsage(fields)) ?? []), isWhole: false }
}

const noLine = { usages: [], isWhole: false }

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
  const { key, payer, cap } = fields
  const estimate = parseEstimate(fields.estimate)
  if (typeof id !== 'string' || id === '') return undefined
  if (typeof user !== 'string' || typeof subscription !== 'string') return undefined
  if (typeof model !== 'string' || typeof status !== 'number') return undefined
  if (typeof start !== 'string' || !/^\d{1,15}$/.test(start)) return undefined
  // Envoy writes null for missing values; a finished response has a duration.
  if (ms !== null && !(typeof ms === 'number' && ms >= 0 && ms <= Number.MAX_SAFE_INTEGER)) {
    return undefined
  }
  // Assigned one by one: each response passes here, and spreading takes longer than parsing.
  const usage: Writable<JournaledUsage> = {
    user,
    subscription,
    model,
    status,
    bytes: Number.isSafeInteger(bytes) && (bytes as number) >= 0 ? (bytes as number) : 0,
    reported: isObject(reported) ? new Map(Object.entries(reported)) : nothingReported,
    response: { id, endedAt: Number(start) + (ms ?? 0) },
    startedAt: Number(start),
  }
  if (typeof group === 'string') usage.group = group
  // Envoy's text format writes `-` for a missing value.
  if (typeof key === 'string' && key !== '' && key !== '-') usage.keyId = key
  if (typeof payer === 'string' && payer !== '-') usage.payer = payer
  if (typeof cap === 'string' && cap !== '-') usage.cap = cap
  if (estimate) usage.estimate = estimate
  // Envoy's names of the two ways to leave; a request that was not sent to the model has no `sent`.
  const { flags, sent } = fields
  if (status === 0 && typeof sent === 'number' && /\bD[CR]\b/.test(String(flags))) {
    usage.hasLeft = true
  }
  return usage
}

type Writable<Value> = { -readonly [Name in keyof Value]: Value[Name] }

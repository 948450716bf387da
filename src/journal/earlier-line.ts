/**
 * Lines of the form before this one, whose files are there when a gateway is upgraded, and in archives: of each
 * metered response that has ended, written by Envoy.
 */

import { isObject } from '../formats/fields.ts'
import { parseEstimate } from '../ratelimit/rules/unreported.ts'
import { isWhole } from '../usage/rules/line-head.ts'
import { sayLeft } from '../usage/rules/response-flags.ts'
import { nothingReported } from '../usage/rules/usage.ts'
import type { ReadLine } from './line.ts'

/** How such lines begin: as text with `id`, as JSON with the first of their names. */
export const earlierLines = ['{"id":', '{"group":'] as const

type Writable<Value> = { -readonly [Name in keyof Value]: Value[Name] }

/** What a line of that form says; undefined: it has another one. Never throws. */
export function readEarlier(fields: Readonly<Record<string, unknown>>): ReadLine | undefined {
  const { id, user, subscription, model, status, start, ms, reported, bytes } = fields
  const { group, key, payer, cap, sent } = fields
  if (typeof id !== 'string' || id === '') return undefined
  if (typeof user !== 'string' || typeof subscription !== 'string') return undefined
  if (typeof model !== 'string' || !isWhole(status)) return undefined
  if (typeof start !== 'string' || !/^\d{1,15}$/.test(start)) return undefined
  // Envoy writes null for what is not known.
  if (ms !== null && !isWhole(ms)) return undefined
  const startedAt = Number(start)
  const flags = textOf(fields.flags) ?? ''
  const isSent = isWhole(sent)
  const usage: Writable<ReadLine['usage']> = {
    ...{ user, subscription, model, status, bytes: isWhole(bytes) ? bytes : 0 },
    reported: isObject(reported) ? new Map(Object.entries(reported)) : nothingReported,
    response: { id, endedAt: startedAt + (ms ?? 0) },
  }
  const [keyId, paid, capped] = [textOf(key), textOf(payer), textOf(cap)]
  const estimate = parseEstimate(fields.estimate)
  if (typeof group === 'string') usage.group = group
  if (keyId) usage.keyId = keyId
  if (paid !== undefined) usage.payer = paid
  if (capped !== undefined) usage.cap = capped
  if (estimate !== undefined) usage.estimate = estimate
  if (status === 0 && isSent && sayLeft(flags)) usage.hasLeft = true
  return {
    ...{ state: 'ended', isMetered: true, by: 'check', usage, startedAt, flags, isSent },
    ...{ firstByteMs: undefined, details: '', transport: '', failure: undefined },
    lane: undefined,
  }
}

/** Envoy's text has `-` for what is not known. */
function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '-' ? value : undefined
}

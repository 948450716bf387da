/**
 * Lines in the format of earlier versions, which occur during an upgrade of a gateway and in archives: one for each
 * metered response that has ended, written by Envoy.
 */

import { isWholeNumber } from '../usage/rules/read-line-head.ts'

/** First bytes of such lines, in Envoy's text format and in its JSON format. */
export const earlierLineStarts = ['{"id":', '{"group":'] as const

type Fields = Readonly<Record<string, unknown>>

/** Converts its fields to the current format; returns undefined for another format. Never throws. */
export function convertEarlierLine(fields: Fields): Fields | undefined {
  const { id, user, subscription, model, start, ms, sent, group, estimate, ...others } = fields
  if (typeof start !== 'string' || !/^\d{1,15}$/.test(start)) return undefined
  const [key, payer, cap] = [fields.key || '-', fields.payer, fields.cap].map(unlessUnknown)
  const who = { id, user, subscription, model, key, group, payer, cap }
  return {
    ...others,
    v: 1,
    type: 'DownstreamEnd',
    metered: true,
    sent: isWholeNumber(sent) ? sent : null,
    // Envoy writes null for unknown values.
    ms: ms === null ? 0 : ms,
    check: { ...who, start: Number(start), by: 'check', estimate },
  }
}

/** Envoy's text format has `-` for unknown values. */
function unlessUnknown(value: unknown): unknown {
  return value === '-' ? undefined : value
}

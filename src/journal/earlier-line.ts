/**
 * Lines in the form of earlier versions, which exist during an upgrade of a gateway, and in archives: of each
 * metered response that has ended, written by Envoy.
 */

import { isWhole } from '../usage/rules/read-line-head.ts'

/** How such lines begin: as text with `id`, as JSON with the first of their names. */
export const earlierLines = ['{"id":', '{"group":'] as const

type Fields = Readonly<Record<string, unknown>>

/** The fields of such a line as they would be now; undefined: it has another form. Never throws. */
export function fromEarlier(fields: Fields): Fields | undefined {
  const { id, user, subscription, model, start, ms, sent, group, estimate, ...others } = fields
  if (typeof start !== 'string' || !/^\d{1,15}$/.test(start)) return undefined
  const [key, payer, cap] = [fields.key || '-', fields.payer, fields.cap].map(unlessUnknown)
  const who = { id, user, subscription, model, key, group, payer, cap }
  return {
    ...others,
    v: 1,
    type: 'DownstreamEnd',
    metered: true,
    sent: isWhole(sent) ? sent : null,
    // Envoy writes null for what is not known.
    ms: ms === null ? 0 : ms,
    check: { ...who, start: Number(start), by: 'check', estimate },
  }
}

/** Envoy's text has `-` for that. */
function unlessUnknown(value: unknown): unknown {
  return value === '-' ? undefined : value
}

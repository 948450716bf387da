/**
 * Instructions for the gateway's script on a hit, as text: a template that many requests share, and the caller's part.
 */

import type { Grant } from '../../decide/decision.ts'
import { forwardingFields } from '../../decide/forwarding-fields.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { type Dialect, dialectOf } from '../../operations/dialect.ts'
import { toPolicyField } from '../../ratelimit/rules/limit-headers.ts'
import { formatCaller, formatSubject } from '../../usage/rules/line-head.ts'
import { maxRecordText, maxTemplateText } from './format.ts'
import { type AskedFor, type MissRule, tableMissRule } from './miss-rules.ts'

/** Some of these would end a line, so that the rest would be read as a header. */
const control = /\p{Cc}/u
const bodyNamesLine = 3

/** The script's data for a request: the part that many requests share, and the caller's. */
export interface HitPlan {
  readonly template: string
  readonly record: string
}

/** Why it may not be in the table, or undefined if it may. */
export function missRule(grant: Grant, asked: AskedFor): MissRule | undefined {
  return (
    tableMissRule(grant, asked) ??
    (hitPlanOf(grant, dialectOf(asked.operation)) ? undefined : 'too_long')
  )
}

/** Returns undefined if a value does not fit the format; the request is then a miss each time. */
export function hitPlanOf(grant: Grant, dialect: Dialect): HitPlan | undefined {
  const record = recordText(grant.caller, grant.keyLimits?.counted)
  const template = record === undefined ? undefined : templateText(grant, dialect)
  return record === undefined || template === undefined ? undefined : { template, record }
}

/** Returns undefined if a value does not fit the format; the request is then a miss each time. */
export function templateText(grant: Grant, dialect: Dialect): string | undefined {
  const { limits, bodyNames = '', held, upstreamPath } = grant
  const { routing, body, server, counting, subject, hasCredential } = forwardingFields(grant)
  const flags = [
    hasCredential ? 'c' : '',
    dialect === 'anthropic' ? 'a' : '',
    held?.estimate === undefined ? '' : 'e',
  ]
  const own: string[] = [
    flags.join(''),
    formatSubject(subject),
    upstreamPath,
    ...[...body, ...counting].map(([, value = '']) => value),
    toPolicyField(limits),
    limits.map(({ name, limit, scope }) => `${name}:${limit}:${scope[0]}`).join(','),
    ...[...routing, ...server].flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}: ${value}`],
    ),
  ]
  // Names are separated by tabs.
  const values = own.with(bodyNamesLine, bodyNames.replaceAll('\t', ''))
  if (values.some((value) => control.test(value))) return undefined
  const text = `${own.join('\n')}\n`
  return Buffer.byteLength(text) > maxTemplateText ? undefined : text
}

/** The caller's members of a line's head, or undefined if they are too long. `keyCounters` as in line-head.ts. */
export function recordText(caller: Caller, keyCounters: string | undefined): string | undefined {
  const keyId = caller.by === 'key' ? caller.keyId : ''
  const text = formatCaller({ user: caller.user, keyId, keyCounters })
  return Buffer.byteLength(text) > maxRecordText ? undefined : text
}

/**
 * What the gateway's script does with a request that the table decides, as text: a template for what many
 * requests have in common, and what belongs to one caller.
 */

import type { Grant } from '../../decide/decision.ts'
import { forwardingOf } from '../../decide/forwarding.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { type Dialect, dialectOf } from '../../operations/dialect.ts'
import { toPolicies } from '../../ratelimit/rules/limit-headers.ts'
import { writeCaller, writeSubject } from '../../usage/rules/line-head.ts'
import { maxRecordText, maxTemplateText } from './format.ts'
import { type AskedFor, type MissRule, missRuleOf } from './rules.ts'

/** Lines would end at some of these, and a header be another one. */
const control = /\p{Cc}/u
const bodyNamesLine = 3

/** The data of a request for the script: what many requests have in common, and what is its caller's. */
export interface Plan {
  readonly template: string
  readonly record: string
}

/** undefined: it may be decided by the table. */
export function missRule(grant: Grant, asked: AskedFor): MissRule | undefined {
  return (
    missRuleOf(grant, asked) ?? (planOf(grant, dialectOf(asked.operation)) ? undefined : 'too_long')
  )
}

/** undefined: something of it does not fit the form, and it is asked each time. */
export function planOf(grant: Grant, dialect: Dialect): Plan | undefined {
  const record = recordText(grant.caller, grant.keyLimits?.counted)
  const template = record === undefined ? undefined : templateText(grant, dialect)
  return record === undefined || template === undefined ? undefined : { template, record }
}

/** undefined: it has a value that does not fit the form, and is asked each time. */
export function templateText(grant: Grant, dialect: Dialect): string | undefined {
  const { limits, bodyNames = '', held, upstreamPath } = grant
  const { routing, body, server, counting, subject, hasCredential } = forwardingOf(grant)
  const flags = [
    hasCredential ? 'c' : '',
    dialect === 'anthropic' ? 'a' : '',
    held?.estimate === undefined ? '' : 'e',
  ]
  const own: string[] = [
    flags.join(''),
    writeSubject(subject),
    upstreamPath,
    ...[...body, ...counting].map(([, value = '']) => value),
    toPolicies(limits),
    limits.map(({ name, limit, scope }) => `${name}:${limit}:${scope[0]}`).join(','),
    ...[...routing, ...server].flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}: ${value}`],
    ),
  ]
  // Between names there are tabs.
  const values = own.with(bodyNamesLine, bodyNames.replaceAll('\t', ''))
  if (values.some((value) => control.test(value))) return undefined
  const text = `${own.join('\n')}\n`
  return Buffer.byteLength(text) > maxTemplateText ? undefined : text
}

/** Members of a line's head; `keyCounters` as in line-head.ts. undefined: too long for a record. */
export function recordText(caller: Caller, keyCounters: string | undefined): string | undefined {
  const keyId = caller.by === 'key' ? caller.keyId : ''
  const text = writeCaller({ user: caller.user, keyId, keyCounters })
  return Buffer.byteLength(text) > maxRecordText ? undefined : text
}

/**
 * What the gateway's script does with a request that the table decides, as text: a template for what many
 * requests have in common, and what belongs to one caller. The words are those of Check's response
 * (extauthz/allow-template.ts), which does the same for the same grant.
 */

import type { Grant } from '../../decide/decision.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { chunkUsageOf, serverHeaders } from '../../models/rules/server-headers.ts'
import { type Dialect, dialectOf } from '../../operations/dialect.ts'
import { openedFields } from '../../operations/restrictions.ts'
import { toPolicies } from '../../ratelimit/rules/limit-headers.ts'
import { writeCaller, writeSubject } from '../../usage/rules/line-head.ts'
import { maxRecordText, maxTemplateText } from './format.ts'
import { type AskedFor, type MissRule, ruleOf } from './rules.ts'

/** Lines would end at some of these, and a header be another one. */
const control = /\p{Cc}/u
const bodyNamesLine = 3

/** What the script is told of a request: in common with many, and of its caller. */
export interface Plan {
  readonly template: string
  readonly record: string
}

/** undefined: it may be decided by the table. */
export function missRule(grant: Grant, asked: AskedFor): MissRule | undefined {
  return (
    ruleOf(grant, asked) ?? (planOf(grant, dialectOf(asked.operation)) ? undefined : 'too_long')
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
  const { model, cluster, subscription, bodyNames = '', limits, owningGroup, payer, tariff } = grant
  const { server, output } = model.resource
  const flags = [
    server.credential ? 'c' : '',
    dialect === 'anthropic' ? 'a' : '',
    grant.held?.estimate === undefined ? '' : 'e',
  ]
  const own: string[] = [
    flags.join(''),
    writeSubject({ subscription, model: model.key, group: owningGroup, payer, tariff }),
    grant.upstreamPath,
    bodyNames,
    openedFields(model.resource) ?? '',
    chunkUsageOf(output, grant.metered) ?? '',
    output?.maxTokensField === 'max_tokens' ? 'max_tokens' : '',
    toPolicies(limits),
    limits.map(({ name, limit, scope }) => `${name}:${limit}:${scope[0]}`).join(','),
    `x-maas-subscription: ${subscription}`,
    `x-tollgate-cluster: ${cluster}`,
    ...serverHeaders(server).map(([name, value]) => `${name}: ${value}`),
  ]
  // Between names there are tabs.
  const values = own.with(bodyNamesLine, bodyNames.replaceAll('\t', ''))
  if (values.some((value) => control.test(value))) return undefined
  const text = `${own.join('\n')}\n`
  return Buffer.byteLength(text) > maxTemplateText ? undefined : text
}

/** Members of a line's head; `cap` as in line-head.ts. undefined: too long for a record. */
export function recordText(caller: Caller, cap: string | undefined): string | undefined {
  const keyId = caller.by === 'key' ? caller.keyId : ''
  const text = writeCaller({ user: caller.user, keyId, cap })
  return Buffer.byteLength(text) > maxRecordText ? undefined : text
}

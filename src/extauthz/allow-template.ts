/**
 * The bytes that the responses to many allowed requests have in common: everything except user,
 * key, path and the state of the limits. A template is made from a grant and can be used for every
 * grant that `fits` accepts (docs/decisions/0009-allows-from-templates.md).
 */

import type { Grant } from '../decide/decision.ts'
import { forwardingFields } from '../decide/forwarding-fields.ts'
import { getOrAdd } from '../formats/lists.ts'
import { writeStructField } from '../grpc/struct.ts'
import { varintSize, WireWriter } from '../grpc/wire.ts'
import type { Model } from '../models/rules/snapshot.ts'
import type { Dialect } from '../operations/dialect.ts'
import type { CountedLimit } from '../ratelimit/rules/limit.ts'
import { toPolicyField } from '../ratelimit/rules/limit-headers.ts'
import { formatSubject } from '../usage/rules/line-head.ts'

/**
 * The encoded fields of an OkHttpResponse: those before the header of the path, those after it, and the rest, by name.
 */
export class AllowTemplate {
  readonly before: Buffer
  readonly after: Buffer
  /** The header `ratelimit-policy` without the key's limits; empty if its value is. */
  readonly policies: Buffer
  /** The value of that header. */
  readonly policyText: string
  /** Number of limits in that header. */
  readonly limitCount: number
  /** Fields of the metadata, without the line and without fields of a single request. */
  readonly metadata: Buffer
  /** Its part of the line's head, in UTF-8. */
  readonly subject: Buffer
  readonly #model: Model
  readonly #limits: readonly CountedLimit[]
  readonly #grant: ReturnType<typeof inputsOf>
  readonly #dialect: Dialect

  constructor(grant: Grant, dialect: Dialect) {
    this.#model = grant.model
    this.limitCount = sharedLimits(grant)
    this.#limits = grant.states.slice(0, this.limitCount).map(({ limit }) => limit)
    this.#grant = inputsOf(grant)
    this.#dialect = dialect
    const { routing, body, server, counting, subject, hasCredential } = forwardingFields(grant)
    this.before = bytesOf((writer) => writeHeaders(writer, routing))
    this.after = bytesOf((writer) => {
      for (const headers of [body, server, counting]) writeHeaders(writer, headers)
      writer.string(5, 'authorization').string(5, 'x-api-key').string(5, 'proxy-authorization')
    })
    this.policyText = toPolicyField(this.#limits)
    this.policies = bytesOf((writer) => {
      if (this.policyText === '') return
      writeHeader(writer, 'ratelimit-policy', this.policyText, responseHeaders)
    })
    this.subject = bytesOf((writer) => writer.text(formatSubject(subject)))
    const { metered, meteredIfReported } = this.#grant
    this.metadata = bytesOf((writer) => {
      // usage.lua sets it to true if it finds usage.
      writeStructField(writer, 'metered', meteredIfReported ? 'if_reported' : metered)
      // For usage.lua, which reads and writes OpenAI's format by default.
      if (dialect === 'anthropic') writeStructField(writer, 'dialect', dialect)
      if (hasCredential) writeStructField(writer, 'credential', true)
    })
  }

  /** Whether the bytes for this grant would be the same, because all their inputs are. */
  fits(grant: Grant, dialect: Dialect): boolean {
    const mine = this.#grant
    const { states } = grant
    if (
      this.#model !== grant.model ||
      this.#dialect !== dialect ||
      mine.cluster !== grant.cluster ||
      mine.subscription !== grant.subscription ||
      mine.bodyNames !== grant.bodyNames ||
      mine.sentName !== grant.sentName ||
      mine.metered !== grant.metered ||
      mine.meteredIfReported !== (grant.meteredIfReported ?? false) ||
      mine.owningGroup !== grant.owningGroup ||
      mine.payer !== grant.payer ||
      mine.tariff !== grant.tariff ||
      this.limitCount !== sharedLimits(grant)
    ) {
      return false
    }
    for (let i = 0; i < this.limitCount; i += 1) {
      if (this.#limits[i] !== states[i]?.limit) return false
    }
    return true
  }
}

/** What the bytes depend on besides model, dialect and limits. */
function inputsOf({ meteredIfReported = false, ...grant }: Grant) {
  const { cluster, subscription, bodyNames, sentName, metered, owningGroup, payer, tariff } = grant
  return {
    ...{ cluster, subscription, bodyNames, sentName, metered, meteredIfReported },
    ...{ owningGroup, payer, tariff },
  }
}

/** Number of the subscription's limits, which many requests have in common; a key's limits come last. */
function sharedLimits({ states }: Grant): number {
  let count = states.length
  while (count > 0 && states[count - 1]?.limit.scope === 'key') count -= 1
  return count
}

function bytesOf(write: (writer: WireWriter) => void): Buffer {
  const writer = new WireWriter()
  write(writer)
  const fields = writer.finish()
  // A separate buffer: a long-lived slice would retain a slab of Node's buffer pool.
  const kept = Buffer.allocUnsafeSlow(fields.length)
  kept.set(fields)
  return kept
}

function writeHeaders(writer: WireWriter, headers: readonly [string, string | undefined][]): void {
  for (const [name, value] of headers) if (value !== undefined) writeHeader(writer, name, value)
}

/** The template for a grant. */
export type TemplateOf = (grant: Grant, dialect: Dialect) => AllowTemplate

/** Makes a new template. */
export const makeTemplate: TemplateOf = (grant, dialect) => new AllowTemplate(grant, dialect)

/** Maximum number of cached templates, of some 500 bytes each. Beyond it the cache is cleared. */
const maxTemplates = 16_384
/** Per model and subscription: two dialects, metered or not, by path or by body, by group. */
const maxVariants = 16

/**
 * Caches templates. A cached template is used only if `fits` has compared all its inputs, so
 * changes of resources need no invalidation.
 */
export function createTemplates(maxSize = maxTemplates): TemplateOf {
  const byModel = new Map<Model, Map<string, AllowTemplate[]>>()
  let size = 0

  function add(grant: Grant, dialect: Dialect): AllowTemplate {
    if (size >= maxSize) {
      byModel.clear()
      size = 0
    }
    const template = new AllowTemplate(grant, dialect)
    const bySubscription = getOrAdd(byModel, grant.model, () => new Map())
    const variants = getOrAdd(bySubscription, grant.subscription, (): AllowTemplate[] => [])
    // For example, templates with limits that have changed since.
    if (variants.length >= maxVariants) {
      size -= variants.length
      variants.length = 0
    }
    variants.push(template)
    size += 1
    return template
  }

  return (grant, dialect) => {
    const variants = byModel.get(grant.model)?.get(grant.subscription)
    if (variants !== undefined) {
      for (const template of variants) if (template.fits(grant, dialect)) return template
    }
    return add(grant, dialect)
  }
}

/** Fields of OkHttpResponse; a DeniedHttpResponse has its response headers in the first one. */
const requestHeaders = 2
export const responseHeaders = 6

/** `HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD`: replaces a client's or a model's own header. */
const overwrite = 2

/** HeaderValueOption: header = 1 (key = 1, value = 2), append_action = 3. */
export function writeHeader(
  writer: WireWriter,
  name: string,
  value: string,
  field: number = requestHeaders,
): void {
  if (writer.shortPair(field, name, value, overwrite)) return
  const lengthBytes = varintSize(name.length + value.length)
  const option = writer.open(field, lengthBytes)
  const header = writer.open(1, lengthBytes)
  writer.string(1, name).string(2, value).close(header, lengthBytes)
  writer.unsigned(3, overwrite).close(option, lengthBytes)
}

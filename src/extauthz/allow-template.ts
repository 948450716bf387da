/**
 * What the answers to many allowed requests have in common, as bytes: all but who asks, the path and
 * how the limits stand. It is made of a grant and belongs to every grant that `fits` says it does
 * (docs/decisions/0009-allows-from-templates.md).
 */

import type { CountedLimit } from '../core/counter.ts'
import type { Grant } from '../core/decide.ts'
import type { Dialect } from '../core/dialect.ts'
import { toPolicies } from '../core/limit-headers.ts'
import type { ModelServer } from '../core/resources.ts'
import type { Model } from '../core/snapshot.ts'
import { writeStructField } from '../grpc/struct.ts'
import { WireWriter } from '../grpc/wire.ts'
import { responseHeaders, writeHeader } from './header.ts'

/** As the routes of envoy/bootstrap.yaml have it. */
const usualRetries = 2

/** Fields of an OkHttpResponse before and after the header of the path, and after those of the limits. */
export class AllowTemplate {
  readonly before: Buffer
  readonly after: Buffer
  /** The header `ratelimit-policy`; empty without limits. */
  readonly policies: Buffer
  /** Fields of the metadata but `user` and `key`. */
  readonly metadata: Buffer
  readonly #model: Model
  readonly #limits: readonly CountedLimit[]
  readonly #grant: Pick<Grant, 'cluster' | 'subscription' | 'bodyNames' | 'metered' | 'owningGroup'>
  readonly #dialect: Dialect

  constructor(grant: Grant, dialect: Dialect) {
    const { model, cluster, subscription, bodyNames, metered, owningGroup } = grant
    this.#model = model
    this.#limits = grant.states.map(({ limit }) => limit)
    this.#grant = { cluster, subscription, bodyNames, metered, owningGroup }
    this.#dialect = dialect
    this.before = bytesOf((writer) => {
      writeHeader(writer, 'x-maas-subscription', subscription)
      writeHeader(writer, 'x-tollgate-cluster', cluster)
    })
    this.after = bytesOf((writer) => {
      if (bodyNames !== undefined) writeHeader(writer, 'x-tollgate-models', bodyNames)
      writeServer(writer, model.resource.server)
      writer.string(5, 'authorization').string(5, 'x-api-key').string(5, 'proxy-authorization')
    })
    this.policies = bytesOf((writer) => {
      if (this.#limits.length === 0) return
      writeHeader(writer, 'ratelimit-policy', toPolicies(this.#limits), responseHeaders)
    })
    this.metadata = bytesOf((writer) => {
      writeStructField(writer, 'subscription', subscription)
      writeStructField(writer, 'model', model.key)
      writeStructField(writer, 'metered', metered)
      // What usage.lua has to read and to say; OpenAI's words are the usual ones.
      if (dialect === 'anthropic') writeStructField(writer, 'dialect', dialect)
      if (model.resource.server.credential) writeStructField(writer, 'credential', true)
      if (owningGroup !== undefined) writeStructField(writer, 'group', owningGroup)
    })
  }

  /** Whether the bytes for this grant would be the same: all that they are made of is. */
  fits(grant: Grant, dialect: Dialect): boolean {
    const mine = this.#grant
    const { states } = grant
    if (
      this.#model !== grant.model ||
      this.#dialect !== dialect ||
      mine.cluster !== grant.cluster ||
      mine.subscription !== grant.subscription ||
      mine.bodyNames !== grant.bodyNames ||
      mine.metered !== grant.metered ||
      mine.owningGroup !== grant.owningGroup ||
      this.#limits.length !== states.length
    ) {
      return false
    }
    for (let i = 0; i < states.length; i += 1) {
      if (this.#limits[i] !== states[i]?.limit) return false
    }
    return true
  }
}

function bytesOf(write: (writer: WireWriter) => void): Buffer {
  const writer = new WireWriter()
  write(writer)
  const fields = writer.finish()
  // Of its own: what is kept for long must not keep a slab of Node's buffer pool.
  const kept = Buffer.allocUnsafeSlow(fields.length)
  kept.set(fields)
  return kept
}

/** What the gateway's routes and scripts have to know of the model's server, where it is unusual. */
function writeServer(writer: WireWriter, server: ModelServer): void {
  const { upstreamModel, idleMs, answerMs, retries } = server
  if (upstreamModel !== undefined) writeHeader(writer, 'x-tollgate-upstream-model', upstreamModel)
  if (idleMs !== undefined) writeHeader(writer, 'x-tollgate-idle', `${idleMs / 1_000}s`)
  if (answerMs !== undefined) {
    writeHeader(writer, 'x-envoy-upstream-rq-timeout-ms', String(answerMs))
  }
  if (retries !== usualRetries) writeHeader(writer, 'x-envoy-max-retries', String(retries))
}

/** The template for a grant. */
export type TemplateOf = (grant: Grant, dialect: Dialect) => AllowTemplate

/** Makes one anew. */
export const makeTemplate: TemplateOf = (grant, dialect) => new AllowTemplate(grant, dialect)

/** Templates that are remembered, of some 500 bytes each; when there are more, all are forgotten. */
const mostTemplates = 16_384
/** Of one model under one subscription: two dialects, metered or not, by path or by body, by group. */
const mostVariants = 16

/**
 * Remembers what it makes. Of a remembered one nothing is believed: it is used only where `fits` has
 * compared all that went into it, so no change of resources has to be told.
 */
export function createTemplates(most = mostTemplates): TemplateOf {
  const byModel = new Map<Model, Map<string, AllowTemplate[]>>()
  let size = 0

  function variantsOf({ model, subscription }: Grant): AllowTemplate[] {
    let bySubscription = byModel.get(model)
    if (bySubscription === undefined) {
      bySubscription = new Map()
      byModel.set(model, bySubscription)
    }
    let variants = bySubscription.get(subscription)
    if (variants === undefined) {
      variants = []
      bySubscription.set(subscription, variants)
    }
    return variants
  }

  function add(grant: Grant, dialect: Dialect): AllowTemplate {
    if (size >= most) {
      byModel.clear()
      size = 0
    }
    const template = new AllowTemplate(grant, dialect)
    const variants = variantsOf(grant)
    // Of limits that have changed since, for one.
    if (variants.length >= mostVariants) {
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

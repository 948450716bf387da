/**
 * The list of models (contract, 3.7): parses the untrusted list of a model's server, and merges the
 * lists of many servers into one ordered list.
 */

import { readEntries } from '../../formats/json-entries.ts'
import { getOrAdd } from '../../formats/lists.ts'
import type { BilledModel } from '../../kinds/resources.ts'
import { type Display, displayOf, type ModelDisplay, modelDisplayOf } from './display-names.ts'
import { publishedId } from './published-names.ts'
import { acceptedNames } from './served-names.ts'
import type { CompiledSubscription, Model } from './snapshot.ts'

/** One entry of a server's own list. */
export interface ServedModel {
  readonly id: string
  /** Unix seconds; undefined if the server gives no usable value. */
  readonly created: number | undefined
  /** Whether the server says that it is llama.cpp's. */
  readonly isLlamaCpp?: boolean
}

/** A model that a subscription opens. */
export interface FoundModel {
  readonly model: Model
  readonly subscription: CompiledSubscription
  /** As `modelEndpoint` returns it; empty if there is none. */
  readonly endpoint: string
  /** Undefined if its server has no list: the ids of the ModelRef are used, or its name. */
  readonly served: readonly ServedModel[] | undefined
}

export interface ListedModel {
  readonly id: string
  /** Unix seconds; 0 if neither the server nor the ModelRef has a time. */
  readonly created: number
  readonly ownedBy: string
  readonly kind: string
  readonly url: string
  readonly ready: boolean
  readonly details: ModelDisplay
  /** Every subscription that opens it, ordered by name. */
  readonly subscriptions: readonly ListedSubscription[]
}

interface ListedSubscription extends Display {
  readonly name: string
  /** Its prices for the model. */
  readonly billingRate: BilledModel['billingRate']
}

/** Limits: entries read from one server's list, and characters of an id. */
const maxIdLength = 512
const listForm = {
  lists: ['data', 'models'],
  names: ['id', 'name', 'model', 'created', 'owned_by'],
  maxEntries: 10_000,
  // Quoted, each character may be an escape of six.
  maxValue: 2 + 6 * maxIdLength,
}
/** Ids that are checked in one step. */
const entriesInStep = 32
/** The last second of the year 9999, the latest that RFC 3339 can express. */
const latestSecond = 253_402_300_799
/** Without controls and invisible characters, with which a name could look like another one. */
const printable = /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$/u

/**
 * Where clients reach a model: its own `endpointOverride`, otherwise its path at the gateway if it
 * has a backend. Without a trailing slash; undefined if it cannot be reached. Only to be shown: a
 * request with a credential must not go to an address that a resource names.
 */
export function modelEndpoint(
  { key, resource, cluster }: Model,
  gatewayUrl: string,
): string | undefined {
  const { endpointOverride } = resource
  if (endpointOverride !== undefined) return endpointOverride.replace(/\/+$/, '')
  return cluster === undefined ? undefined : `${gatewayUrl}/${key}`
}

/**
 * The entries of `{"data":[{"id","created"}]}`, of `{"models":[…]}` or of a bare list, for any text; one without `id`
 * has its `name` or `model`. Skips ids that are not strings, empty, too long, unprintable or repeated. Throws a
 * SyntaxError if it is no JSON object and no list. Yields every 16 KB, since a list may have megabytes.
 */
export function* readServedModels(text: string): Generator<void, readonly ServedModel[]> {
  const served = new Map<string, ServedModel>()
  for (const [i, entry] of (yield* readEntries(text, listForm)).entries()) {
    if (i % entriesInStep === 0) yield
    const { name, model, created, owned_by: owner } = entry
    const id = entry.id ?? name ?? model
    if (!isUsableId(id) || served.has(id)) continue
    const isLlamaCpp = owner === 'llamacpp'
    served.set(id, { id, created: readSeconds(created), ...(isLlamaCpp && { isLlamaCpp }) })
  }
  return [...served.values()]
}

/** Which names a body may use. */
interface BodyNames {
  /** Whether a body of this caller may use the name. */
  readonly isUsable: (id: string) => boolean
  /** Where the body names the model. */
  readonly sharedUrl: string
}

/**
 * One entry for each id, url and owner, ordered by the three. If `spec.modelIds` says which of the server's ids are
 * this model, other ids are left out, because several ModelRefs may share a server. A model with `spec.upstreamModel`
 * has its own names, whatever the server lists. Names that in a body of this caller mean no model, or several, become
 * the one id `publishers/<namespace>/models/<name>`, with the URL of the shared paths: on the model's own path its
 * server would get the id as it is. Steps for `inSlices`: there may be a hundred thousand names.
 */
export function* mergeModels(
  found: readonly FoundModel[],
  { isUsable, sharedUrl }: BodyNames,
): Generator<void, readonly ListedModel[]> {
  const entries = new Map<string, ListedModel & { readonly subscriptions: ListedSubscription[] }>()
  const listed = new Set(found.map(({ subscription }) => subscription))
  const rates = new Map([...listed].map((each) => [each, ratesOf(each)]))
  const looked = new Map<string, boolean>()
  const mayBeUsed = (id: string): boolean => getOrAdd(looked, id, () => isUsable(id))
  for (const { model, subscription, endpoint, served } of found) {
    for (const { id, created, isPublished } of yield* servedAs(model, served, mayBeUsed)) {
      yield
      const url = isPublished ? sharedUrl : endpoint
      const key = JSON.stringify([id, url, model.key])
      const entry = entries.get(key) ?? {
        id,
        created: created ?? Math.floor((model.resource.metadata.createdAt ?? 0) / 1_000),
        ownedBy: model.key,
        kind: model.resource.backend.kind || 'llmisvc',
        url,
        ready: model.phase === 'Ready',
        details: modelDisplayOf(model.resource.metadata),
        subscriptions: [],
      }
      entries.set(key, entry)
      if (entry.subscriptions.some(({ name }) => name === subscription.name)) continue
      const display = displayOf(subscription.resource.metadata)
      const billingRate = rates.get(subscription)?.get(model.key)
      entry.subscriptions.push({ name: subscription.name, billingRate, ...display })
    }
  }
  for (const { subscriptions } of entries.values()) {
    subscriptions.sort((a, b) => compare(a.name, b.name))
  }
  return [...entries.values()].sort(
    (a, b) => compare(a.id, b.id) || compare(a.url, b.url) || compare(a.ownedBy, b.ownedBy),
  )
}

function ratesOf({ resource, modelKeys }: CompiledSubscription) {
  return new Map(resource.modelRefs.map(({ billingRate }, i) => [modelKeys[i], billingRate]))
}

function* servedAs(
  { resource }: Model,
  served: readonly ServedModel[] | undefined,
  mayBeUsed: (id: string) => boolean,
): Generator<void, readonly (ServedModel & { readonly isPublished?: true })[]> {
  const { metadata, modelIds, server } = resource
  const { upstreamModel } = server
  if (served === undefined || upstreamModel !== undefined) {
    const ids = modelIds.length === 0 ? [metadata.name] : modelIds
    const created = served?.find(({ id }) => id === upstreamModel)?.created
    return ids.map((id) => ({ id, created }))
  }
  if (modelIds.length > 0) return served.filter(({ id }) => modelIds.includes(id))
  const accepted = acceptedNames(served)
  const usable: ServedModel[] = []
  for (const entry of accepted) {
    yield
    if (mayBeUsed(entry.id)) usable.push(entry)
  }
  if (usable.length === accepted.length) return usable
  return [...usable, { id: publishedId(metadata), created: undefined, isPublished: true }]
}

function isUsableId(id: unknown): id is string {
  return (
    typeof id === 'string' && id.length <= maxIdLength && printable.test(id) && id.isWellFormed()
  )
}

function readSeconds(created: unknown): number | undefined {
  if (typeof created !== 'number' || !(created >= 0 && created <= latestSecond)) return undefined
  return Math.floor(created)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/**
 * Ids of the form `publishers/<namespace>/models/<name>`, with which models-as-a-service and KServe name a model in a
 * body. Such an id means only ModelRefs of its namespace, independent of what others declare and servers list.
 */

import type { Model, Snapshot } from './snapshot.ts'

interface PublishedName {
  readonly id: string
  readonly namespace: string
  readonly name: string
}

const form = /^publishers\/([^/]+)\/models\/(.+)$/s

/** Returns undefined if the name has another form. */
export function parsePublishedName(id: string): PublishedName | undefined {
  if (!id.startsWith('publishers/')) return undefined
  const [, namespace, name] = form.exec(id) ?? []
  return namespace === undefined || name === undefined ? undefined : { id, namespace, name }
}

/** The id of the ModelRef `<namespace>/<name>`. */
export function publishedId({ namespace, name }: Omit<PublishedName, 'id'>): string {
  return `publishers/${namespace}/models/${name}`
}

/**
 * The models that the id means: the ModelRef with that name, otherwise those of the namespace that
 * declare the id, or else the name, in `spec.modelIds`. Empty if there is none.
 */
export function publishedModels(
  { id, namespace, name }: PublishedName,
  { models, modelsByName }: Pick<Snapshot, 'models' | 'modelsByName'>,
): readonly Model[] {
  const named = models.get(`${namespace}/${name}`)
  if (named !== undefined) return [named]
  const isThere = ({ resource }: Model): boolean => resource.metadata.namespace === namespace
  for (const each of [id, name]) {
    const declared = (modelsByName.get(each) ?? []).filter(isThere)
    if (declared.length > 0) return declared
  }
  return []
}

/** Text that a body may contain without escapes, and a header. */
const plain = /^[!#-[\]-~]+$/

/**
 * The server's name for the model, to be sent instead of the id. Undefined if the id stays, because
 * the server knows it, or because `spec.upstreamModel` replaces every name.
 */
export function upstreamModelName(
  model: Model,
  { id, name }: PublishedName,
  { servedNames }: Pick<Snapshot, 'servedNames'>,
): string | undefined {
  const { modelIds, server } = model.resource
  if (server.upstreamModel !== undefined) return undefined
  const known = modelIds.length > 0 ? modelIds : (servedNames.listOf(model) ?? [])
  if (known.includes(id)) return undefined
  const found = known.includes(name) ? name : (known.find((each) => plain.test(each)) ?? name)
  return plain.test(found) ? found : undefined
}

/** Policies and subscriptions that are not in force and whose models can be read. */

import { isObject, valueAt } from '../../formats/fields.ts'
import { subscriptionNamespace } from '../../kinds/metadata.ts'
import { isKindName } from './original/original-kinds.ts'

/** An AccessPolicy or a Subscription that cannot be parsed. */
export interface RefusedResource {
  readonly kind: 'AccessPolicy' | 'Subscription'
  readonly name: string
  /** `<namespace>/<name>` of the models that it names legibly. */
  readonly modelKeys: readonly string[]
  /** Its problem. */
  readonly message: string
}

const kinds = ['AccessPolicy', 'Subscription'] as const

/** Maximum number of models that are read from one refused document. */
const maxModels = 1_000

/** Returns undefined if the document is not about models, or names none legibly. */
export function toRefusedResource(document: unknown, message: string): RefusedResource | undefined {
  const kind = kinds.find((each) => isKindName(each, valueAt(document, ['kind'])))
  const name = valueAt(document, ['metadata', 'name'])
  const modelRefs = valueAt(document, ['spec', 'modelRefs'])
  if (kind === undefined || typeof name !== 'string' || !Array.isArray(modelRefs)) return undefined
  const modelKeys = new Set<string>()
  for (const reference of modelRefs.slice(0, maxModels)) {
    if (!isObject(reference)) continue
    if (typeof reference.namespace !== 'string' || typeof reference.name !== 'string') continue
    modelKeys.add(`${reference.namespace}/${reference.name}`)
  }
  return { kind, name, modelKeys: [...modelKeys], message }
}

/** `<kind>/<namespace>/<name>` of a document that cannot be parsed, or undefined if these cannot be read either. */
export function unparsedResourceKey(document: unknown): string | undefined {
  const written = valueAt(document, ['kind'])
  const kind = (['ModelRef', 'Tenant', ...kinds] as const).find((each) => isKindName(each, written))
  const name = valueAt(document, ['metadata', 'name'])
  const namespace = valueAt(document, ['metadata', 'namespace'])
  if (kind === undefined || typeof name !== 'string') return undefined
  const ofKind = kind === 'ModelRef' ? 'default' : subscriptionNamespace
  return `${kind}/${typeof namespace === 'string' ? namespace : ofKind}/${name}`
}

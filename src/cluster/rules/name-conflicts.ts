/**
 * Names that two ModelRefs declare. On a shared path a body with such a name means the earlier ModelRef, for callers
 * whose Subscription covers both.
 */

import { joinFirst } from '../../formats/lists.ts'
import { parsePublishedName } from '../../models/rules/published-names.ts'
import { type Model, modelNames, type Snapshot } from '../../models/rules/snapshot.ts'
import type { Condition } from './condition.ts'

/** Names in one message, and the characters shown of each. */
const namesShown = 10
const maxShownLength = 64

/** The condition `ModelIdentityUnique` of a model, as the original's newest version has it: informational. */
export function identityCondition(model: Model, snapshot: Snapshot): Condition {
  const type = 'ModelIdentityUnique'
  const taken = modelNames(model.resource).flatMap((name) => {
    const owner = ownerOf(name, model, snapshot)
    return owner === undefined ? [] : [`${quotedName(name)} to ${owner}`]
  })
  if (taken.length === 0) return { type, status: 'True', reason: 'UniqueIdentity', message: '' }
  const count = taken.length === 1 ? '1 name belongs' : `${taken.length} names belong`
  const message = `${count} to others: ${joinFirst(taken.sort(), namesShown)}`
  return { type, status: 'False', reason: 'ModelNameConflict', message }
}

/** The key of an earlier model that has the name, or the namespace of a published id; undefined if the name is the model's. */
function ownerOf(name: string, model: Model, { modelsByName }: Snapshot): string | undefined {
  const published = parsePublishedName(name)
  if (published !== undefined) {
    const { namespace } = model.resource.metadata
    return published.namespace === namespace ? undefined : published.namespace
  }
  const [first] = modelsByName.get(name) ?? []
  return first === model ? undefined : first?.key
}

/** Quoted, with everything but printable ASCII escaped: a name may imitate another one. */
function quotedName(name: string): string {
  const short = name.length > maxShownLength ? `${name.slice(0, maxShownLength)}…` : name
  const toCode = (character: string): string =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(short).replace(/[^\x20-\x7e]/g, toCode)
}

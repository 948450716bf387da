/**
 * Names of a model that belong to others: on a shared path a body that uses such a name means the
 * other model for everybody who may use that one.
 */

import { readPublishedName } from '../../models/rules/published-names.ts'
import { takesServedNames } from '../../models/rules/served-names.ts'
import { type Model, namesOf, resourceKey, type Snapshot } from '../../models/rules/snapshot.ts'
import type { Condition } from './condition.ts'

/** A name, and to whom it belongs: the key of an earlier model, or a namespace. */
interface Conflict {
  readonly name: string
  readonly owner: string
}

/** Names in one message, and the characters shown of each. */
const namesShown = 10
const maxShownLength = 64

/**
 * The condition `ModelIdentityUnique` of a model, as the original's newest version has it:
 * informational.
 */
export function identityCondition(model: Model, snapshot: Snapshot): Condition {
  const type = 'ModelIdentityUnique'
  const message = describeConflicts(model, snapshot)
  if (message !== undefined) return { type, status: 'False', reason: 'ModelNameConflict', message }
  if (!snapshot.servedNames.isKnown) {
    const message = 'Postgres, which has the owners of names, has not answered yet'
    return { type, status: 'Unknown', reason: 'ConflictCheckFailed', message }
  }
  if (takesServedNames(model) && snapshot.servedNames.listOf(model) === undefined) {
    const message = 'the model server has not listed its names yet'
    return { type, status: 'Unknown', reason: 'AliasNotResolved', message }
  }
  return { type, status: 'True', reason: 'UniqueIdentity', message: '' }
}

/** One problem for each model some of whose names belong to others, in steps of one model. */
export function* nameProblems(snapshot: Snapshot): Generator<void, readonly string[]> {
  const problems: string[] = []
  for (const model of snapshot.models.values()) {
    const message = describeConflicts(model, snapshot)
    if (message !== undefined) problems.push(`${resourceKey(model.resource)}: ${message}`)
    yield
  }
  return problems.sort()
}

/** The first ten names in order, and the number of all; undefined if every name is the model's. */
function describeConflicts(model: Model, snapshot: Snapshot): string | undefined {
  const conflicts = conflictsOf(model, snapshot)
  if (conflicts.length === 0) return undefined
  const shown = conflicts
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, namesShown)
    .map(({ name, owner }) => `${showName(name)} to ${owner}`)
  const more = conflicts.length - shown.length
  const count = conflicts.length === 1 ? '1 name belongs' : `${conflicts.length} names belong`
  return `${count} to others: ${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

function conflictsOf(model: Model, { modelsByName, servedNames }: Snapshot): readonly Conflict[] {
  const { namespace } = model.resource.metadata
  const isOwn = ({ resource }: Model): boolean => resource.metadata.namespace === namespace
  const conflicts: Conflict[] = []
  const declared = new Set(namesOf(model.resource))
  const listed = takesServedNames(model) ? (servedNames.listOf(model) ?? []) : []
  for (const name of new Set([...declared, ...listed])) {
    const published = readPublishedName(name)
    if (published === undefined || published.namespace === namespace) continue
    conflicts.push({ name, owner: published.namespace })
  }
  for (const name of declared) {
    if (readPublishedName(name) !== undefined) continue
    const owner = servedNames.ownerOf(name)
    const sharing = modelsByName.get(name) ?? []
    const [first] = owner === namespace ? sharing.filter(isOwn) : sharing
    if (owner !== undefined && owner !== namespace) conflicts.push({ name, owner })
    else if (first !== undefined && first !== model) conflicts.push({ name, owner: first.key })
  }
  for (const name of listed) {
    if (declared.has(name) || readPublishedName(name) !== undefined) continue
    const owner = servedNames.ownerOf(name)
    if (owner === namespace) continue
    const sharing = modelsByName.get(name)
    if (sharing?.some(isOwn)) continue
    const other = owner ?? sharing?.[0]?.key
    if (other !== undefined) conflicts.push({ name, owner: other })
  }
  return conflicts
}

/** Quoted, with everything but printable ASCII escaped: a name may imitate another one. */
function showName(name: string): string {
  const short = name.length > maxShownLength ? `${name.slice(0, maxShownLength)}…` : name
  const toCode = (character: string): string =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(short).replace(/[^\x20-\x7e]/g, toCode)
}

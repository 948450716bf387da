/** Who may use which model, by which policies and subscriptions. */

import { appendTo, getOrAdd } from '../formats/lists.ts'
import type {
  CompiledPolicy,
  CompiledSubscription,
  Model,
  Snapshot,
} from '../models/rules/snapshot.ts'
import { unusableReason } from './subscription-selection.ts'

/** A user or group that a policy or subscription names for a model. */
export interface AccessRow {
  readonly model: Model
  readonly kind: 'user' | 'group'
  readonly name: string
  /** The policies that open the model to it, ordered by name. */
  readonly policies: readonly CompiledPolicy[]
  /** Its subscriptions that include the model, ordered by name, whether or not they can pay now. */
  readonly subscriptions: readonly PayingSubscription[]
}

interface PayingSubscription {
  readonly subscription: CompiledSubscription
  /** Whether it can pay for the model now. */
  readonly pays: boolean
}

export interface AccessQuestion {
  /** `<namespace>/<name>`, or a name as in a body; all models if undefined. */
  readonly model: string | undefined
  /** A user or group; all if undefined. */
  readonly subject: string | undefined
  readonly offset: number
  readonly limit: number
}

interface Row extends AccessRow {
  readonly policies: CompiledPolicy[]
  readonly subscriptions: PayingSubscription[]
}

/**
 * The rows, ordered by model, groups before users, and name: one more than the limit, if there are
 * more. Yields between steps, because there may be millions of rows.
 */
export function* accessRows(
  snapshot: Snapshot,
  { model, subject, offset, limit }: AccessQuestion,
): Generator<undefined, readonly AccessRow[]> {
  const only = model === undefined ? undefined : new Set(modelsNamed(snapshot, model))
  const policies = yield* byModel(snapshot.policies.values(), only)
  const subscriptions = yield* byModel(snapshot.subscriptions.values(), only)
  const keys = [...new Set([...policies.keys(), ...subscriptions.keys()])].sort()
  const page: AccessRow[] = []
  let passed = 0
  for (const key of keys) {
    yield
    const found = snapshot.models.get(key)
    if (found === undefined) continue
    const rows = rowsOf(found, policies.get(key) ?? [], subscriptions.get(key) ?? [], subject)
    const from = Math.max(0, offset - passed)
    passed += rows.length
    page.push(...rows.slice(from, from + limit + 1 - page.length))
    if (page.length > limit) break
  }
  return page
}

/** The keys of the models that a name may mean: those that declare it, otherwise those whose server lists it. */
function modelsNamed({ models, modelsByName, servedNames }: Snapshot, name: string) {
  const model = models.get(name)
  if (model !== undefined) return [model.key]
  const named = modelsByName.get(name) ?? servedNames.listingAnywhere(name, models.size)
  return named.map(({ key }) => key)
}

/** The resources that name each model, ordered by their own names. */
function* byModel<Compiled extends CompiledPolicy | CompiledSubscription>(
  all: Iterable<Compiled>,
  only: ReadonlySet<string> | undefined,
): Generator<undefined, ReadonlyMap<string, readonly Compiled[]>> {
  const found = new Map<string, Compiled[]>()
  for (const each of [...all].sort(byName)) {
    yield
    for (const key of each.modelKeys) {
      if (only?.has(key) ?? true) appendTo(found, key, each)
    }
  }
  return found
}

function byName(a: CompiledPolicy | CompiledSubscription, b: typeof a): number {
  return a.resource.metadata.name < b.resource.metadata.name ? -1 : 1
}

function rowsOf(
  model: Model,
  policies: readonly CompiledPolicy[],
  subscriptions: readonly CompiledSubscription[],
  subject: string | undefined,
): readonly AccessRow[] {
  const rows = { group: new Map<string, Row>(), user: new Map<string, Row>() }
  const rowOf = (kind: Row['kind'], name: string): Row =>
    getOrAdd(rows[kind], name, () => ({ model, kind, name, policies: [], subscriptions: [] }))
  const requested = (names: Iterable<string>) =>
    [...names].filter((name) => subject === undefined || name === subject)
  for (const policy of policies) {
    const { users, groups } = policy.resource.subjects
    for (const name of requested(new Set(groups))) rowOf('group', name).policies.push(policy)
    for (const name of requested(new Set(users))) rowOf('user', name).policies.push(policy)
  }
  for (const subscription of subscriptions) {
    const { users, groups } = subscription
    const paying = { subscription, pays: unusableReason(subscription, model.key) === undefined }
    for (const name of requested(groups)) rowOf('group', name).subscriptions.push(paying)
    for (const name of requested(users)) rowOf('user', name).subscriptions.push(paying)
  }
  return [...inOrder(rows.group), ...inOrder(rows.user)]
}

function inOrder(rows: ReadonlyMap<string, Row>): readonly Row[] {
  return [...rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

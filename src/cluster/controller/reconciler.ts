/** The state that the cluster should have, and which of its objects are checked when that state changes. */

import { changedEntries } from '../../models/rules/compile.ts'
import type { RefusedResource } from '../../models/rules/refused-resources.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { ClusterObject } from '../../models/sources/object-cache.ts'
import { inSlices } from '../../runtime/slices.ts'
import { type Reports, statusViewsOf } from '../rules/enforcement.ts'
import { policyKinds } from '../rules/generated-policies.ts'
import { type AllModelPolicies, noPolicies, policiesInSteps } from '../rules/policies.ts'
import type { ObjectWriter } from './object-writer.ts'
import type { PolicyObjects } from './policy-objects.ts'
import { changedObjects, objectsAbout, type StatusObjects } from './status-objects.ts'

interface ReconcilerDeps {
  readonly writer: Pick<ObjectWriter, 'enqueue'>
  readonly policyObjects: PolicyObjects
  readonly statusObjects: StatusObjects
  readonly gatewayUrl: string
}

type Objects = ReadonlyMap<string, ClusterObject>

/** `reports`: what processes have in force, until `take` has others. */
export function createReconciler(deps: ReconcilerDeps, reports: Reports) {
  const { writer, policyObjects, statusObjects, gatewayUrl } = deps
  let policies: AllModelPolicies = noPolicies
  let published: { readonly snapshot: Snapshot; readonly objects: Objects } | undefined
  /** The last verdict about each model from the reports. */
  const verdicts = new Map<string, string>()

  function enqueueAll(): void {
    writer.enqueue(statusObjects.targetsOf())
    writer.enqueue(policyObjects.all())
  }

  /** Takes the current state, and checks the objects of these models, or of all. */
  function reconcile(models: Iterable<string> = policies.byModel.keys()): void {
    if (published === undefined) return
    const view = statusViewsOf({ policies, reports })
    policyObjects.setDesired(policies, view.policyConditions)
    statusObjects.setDesired({ ...published, ...view, gatewayUrl })
    const moved = new Set<string>()
    for (const model of models) {
      const found = policyKinds.map((kind) => view.policyConditions(model, kind))
      const verdict = JSON.stringify([...found, view.programmedCondition(model)])
      if (verdicts.get(model) === verdict) continue
      verdicts.set(model, verdict)
      moved.add(model)
    }
    writer.enqueue(policyObjects.targetsOf(moved), true)
    writer.enqueue(statusObjects.targetsOf(objectsAbout(moved, published.snapshot)), true)
  }

  return {
    enqueueAll,
    /** A new snapshot, and the objects in the cluster that it was made from. */
    async publish(snapshot: Snapshot, refused: readonly RefusedResource[], objects: Objects) {
      const before = { policies, objects: published?.objects ?? new Map() }
      policies = await inSlices(policiesInSteps(snapshot, refused, policies))
      published = { snapshot, objects }
      const stale = [...changedEntries(policies.byModel, before.policies.byModel)]
      const models = new Set(stale.map(({ model }) => model))
      for (const model of models) verdicts.delete(model)
      reconcile(models)
      writer.enqueue(statusObjects.targetsOf(changedObjects(before.objects, objects)), true)
      enqueueAll()
    },
    /** New reports, and the models whose reports have changed, or undefined for any. */
    take(found: Reports, changed: ReadonlySet<string> | undefined): void {
      if (changed?.size === 0) return
      reports = found
      reconcile(changed)
    },
  }
}

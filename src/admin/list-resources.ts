/** `GET /internal/v1/resources`: resources in force with their phases, and refused ones. */

import type { FastifyInstance } from 'fastify'
import type { Model, Snapshot } from '../core/decision/snapshot.ts'
import { type BackendState, statusOf } from '../core/status/conditions.ts'
import { type Enforcement, viewOf } from '../core/status/enforcement.ts'
import { policyStatuses } from '../core/status/generated-policies.ts'
import { identityCondition } from '../core/status/name-conflicts.ts'

export interface ListResourcesDeps {
  readonly snapshot: () => Snapshot
  /** How the last request to a model's server ended. */
  readonly backendOf?: (model: string) => BackendState | undefined
  /** Problems that the source of the resources has found, one sentence each. */
  readonly resourceProblems: () => readonly string[]
  /** The state of each model, here and in all processes that may be serving. */
  readonly enforcement: () => Promise<Enforcement>
}

export function listResources(app: FastifyInstance, deps: ListResourcesDeps): void {
  app.get('/internal/v1/resources', async () => {
    const enforcement = await deps.enforcement()
    const view = viewOf(enforcement)
    const snapshot = deps.snapshot()
    const identityOf = (model: Model) => identityCondition(model, snapshot)
    return {
      object: 'list',
      data: [
        ...statusOf(snapshot, { backendOf: deps.backendOf, identityOf, ...view }),
        ...policyStatuses(enforcement.policies, view.policyConditions),
      ],
      problems: deps.resourceProblems(),
    }
  })
}

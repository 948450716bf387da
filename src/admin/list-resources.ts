/** `GET /internal/v1/resources`: what is in force, in which phase, and what was refused. */

import type { FastifyInstance } from 'fastify'
import { type BackendState, statusOf } from '../core/conditions.ts'
import type { Snapshot } from '../core/snapshot.ts'

export interface ListResourcesDeps {
  readonly snapshot: () => Snapshot
  /** How the last request to a model's server ended. */
  readonly backendOf?: (model: string) => BackendState | undefined
  /** What the source of the resources found wrong, a sentence each. */
  readonly resourceProblems: () => readonly string[]
}

export function listResources(app: FastifyInstance, deps: ListResourcesDeps): void {
  app.get('/internal/v1/resources', () => ({
    object: 'list',
    data: statusOf(deps.snapshot(), { backendOf: deps.backendOf }),
    problems: deps.resourceProblems(),
  }))
}

/** Runs in one go what the service does in slices. */

import { type AllModelPolicies, policiesInSteps } from '../../src/cluster/rules/policies.ts'
import { compileInSteps } from '../../src/models/rules/compile.ts'
import type { RefusedResource } from '../../src/models/rules/refused-resources.ts'
import type { Snapshot } from '../../src/models/rules/snapshot.ts'

function runToEnd<Result>(steps: Generator<unknown, Result>): Result {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

export function compile(...given: Parameters<typeof compileInSteps>): Snapshot {
  return runToEnd(compileInSteps(...given))
}

export function policiesOf(
  snapshot: Snapshot,
  refused: readonly RefusedResource[] = [],
): AllModelPolicies {
  return runToEnd(policiesInSteps(snapshot, refused))
}

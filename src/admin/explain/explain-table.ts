/** How the decision table would treat a request that is allowed (docs/table.md). */

import type { Decision } from '../../decide/decision.ts'
import { allowsOneChoiceOnly } from '../../decide/steps/operation.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { PathRules } from '../../operations/operations.ts'
import { parseTarget } from '../../operations/request-target.ts'
import { missRule } from '../../table/rules/hit-plan.ts'
import { missRules } from '../../table/rules/miss-rules.ts'
import { object, optional, string } from '../http/schema.ts'

/** `off`: by the settings. `closed`: not in force now. */
export type TableCondition = 'open' | 'closed' | 'off'

interface TableWorld {
  readonly condition: TableCondition
  readonly snapshot: Snapshot
  readonly paths: PathRules
}

/** Nothing for a request that is refused: every refusal is Check's. */
export function toTableJson(
  decision: Decision,
  { method, path }: { readonly method: string; readonly path: string },
  { condition, snapshot, paths }: TableWorld,
) {
  const target = parseTarget(path)
  if (!decision.allowed || target === undefined) return {}
  const { operation, query } = target
  const isOneAnswer = allowsOneChoiceOnly(decision.model, operation, paths, snapshot)
  const asked = { method, operation, query, isOneAnswer, isTraced: false, hasFields: false }
  const rule = missRule(decision, asked) ?? (condition === 'open' ? undefined : condition)
  return { table: { decides: rule === undefined, ...(rule && { reason: rule }) } }
}

/** Schema of the result of `toTableJson`. */
export const tableField = {
  table: optional({
    description:
      'For an allowed request: whether Envoy may decide it by itself, once Check has allowed two like it within half a minute.',
    ...object('TableDecision', {
      decides: { type: 'boolean' },
      reason: optional(
        string(
          'Why Check is called each time: a property of the request, or the table is closed or off.',
          {
            enum: [...missRules, 'closed', 'off'],
          },
        ),
      ),
    }),
  }),
} as const

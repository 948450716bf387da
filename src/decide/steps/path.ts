/** Step `path`: whether path and query are spelled so that every server reads them alike. */

import { refuseSpelling } from '../../operations/operations.ts'
import type { Denial } from '../decision.ts'
import type { DecisionContext } from './step.ts'

export function checkPath({ request, rules }: DecisionContext): Denial | undefined {
  const { operation, query } = request.target
  const misspelled = refuseSpelling(operation, query, rules)
  return misspelled && { allowed: false, ...misspelled }
}

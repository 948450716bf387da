/** The inputs of every part of a process. */

import type { AuditTrail } from '../audit/trail.ts'
import type { ProcessContext } from '../settings/context.ts'

export interface Context extends ProcessContext {
  readonly audit: AuditTrail
}

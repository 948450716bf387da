/**
 * What the gateway's script does with a request that the table decides, as text: a template for what many
 * requests have in common, and what belongs to one caller.
 */

import type { Caller } from '../decision/caller.ts'
import type { Grant } from '../decision/decide.ts'
import type { Dialect } from '../decision/dialect.ts'

/** undefined: it has a value that does not fit the form, and is asked each time. */
export function templateText(_grant: Grant, _dialect: Dialect): string | undefined {
  return undefined
}

/** Members of a line's head; `cap` as in line-head.ts. undefined: too long for a record. */
export function recordText(_caller: Caller, _cap: string | undefined): string | undefined {
  return undefined
}

/** Why identity tokens are refused, for the log; it holds nothing of any token. */

import type { Context } from './context.ts'
import { createLineLimit } from './line-limit.ts'

export type RefusalLog = ReturnType<typeof createRefusalLog>

/** Milliseconds in which one reason is one line, however many tokens are refused for it. */
const oneLineMs = 10_000

/** A line for each reason; the next one says how many were not logged. */
export function createRefusalLog({ log, clock }: Pick<Context, 'log' | 'clock'>) {
  const lines = createLineLimit(oneLineMs)
  return {
    /** `about`: what would have proved the token, and where there is one its issuer. */
    note(about: Readonly<Record<string, string>>, reason: string): void {
      const unlogged = lines.pass(JSON.stringify([about, reason]), clock())
      if (unlogged === undefined) return
      log.info({ ...about, reason, unlogged }, 'an identity token was refused')
    },
  }
}

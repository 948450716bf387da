/** Logs why identity tokens are refused, without any of their text. */

import { createLineLimit } from '../runtime/line-limit.ts'
import type { ProcessContext } from '../settings/context.ts'

export type RefusalLog = ReturnType<typeof createRefusalLog>

/** A reason is logged at most once in this many milliseconds, however many tokens are refused. */
const oneLineMs = 10_000

/** One line per reason; the next one gives the number that was not logged. */
export function createRefusalLog({ log, clock }: Pick<ProcessContext, 'log' | 'clock'>) {
  const lines = createLineLimit(oneLineMs)
  return {
    /** `about`: the verifier of the token and, if known, its issuer. */
    note(about: Readonly<Record<string, string>>, reason: string): void {
      const unlogged = lines.pass(JSON.stringify([about, reason]), clock())
      if (unlogged === undefined) return
      log.info(
        { code: 'identity_token_refused', ...about, reason, unlogged },
        'an identity token was refused',
      )
    },
  }
}

/** Why identity tokens are refused, for the log; it holds nothing of any token. */

import type { Context } from './context.ts'

export interface RefusalLog {
  /** `about`: what would have proved the token, and where there is one its issuer. */
  note(about: Readonly<Record<string, string>>, reason: string): void
}

/** Milliseconds in which one reason is one line, however many tokens are refused for it. */
const oneLineMs = 10_000

/** A line for each reason; the next one says how many were not logged. */
export function createRefusalLog({ log, clock }: Pick<Context, 'log' | 'clock'>): RefusalLog {
  const lines = new Map<string, { at: number; unlogged: number }>()
  return {
    note(about, reason) {
      const key = JSON.stringify([about, reason])
      const line = lines.get(key)
      if (line !== undefined && Math.abs(clock() - line.at) < oneLineMs) {
        line.unlogged += 1
        return
      }
      lines.set(key, { at: clock(), unlogged: 0 })
      log.info({ ...about, reason, unlogged: line?.unlogged ?? 0 }, 'an identity token was refused')
    },
  }
}

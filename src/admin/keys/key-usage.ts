/** A key's usage of today and this month, in the response of `GET /v1/api-keys/{id}`. */

import { ServiceError } from '../../formats/errors.ts'
import { dayMs, hourMs } from '../../formats/time.ts'
import type { UsageReader, UsageTotal } from '../../usage/store.ts'
import { object } from '../http/schema.ts'

const count = { type: 'integer', minimum: 0 } as const

const used = object('KeyUse', {
  answers: count,
  inputTokens: count,
  outputTokens: count,
  totalTokens: count,
})

export const keyUsageSchema = {
  description:
    "What the key has used, in UTC. Left out without USAGE_JOURNAL, and for the owner's other keys.",
  ...object('KeyUsage', { today: used, month: used }),
} as const

/** Returns undefined if there is no ledger, or if it cannot be read now; the record is then shown without usage. */
export async function readKeyUsage(usage: UsageReader | undefined, keyId: string, now: number) {
  if (usage === undefined) return undefined
  const date = new Date(now)
  const from = Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
  const to = Math.floor(now / hourMs) * hourMs + hourMs
  const query = { from, to, unit: 'day', by: [], only: { key: keyId }, after: undefined } as const
  const days = await usage.read({ ...query, limit: 31 }).catch((error: unknown) => {
    if (error instanceof ServiceError) return undefined
    throw error
  })
  if (days === undefined) return undefined
  const today = Math.floor(now / dayMs) * dayMs
  return { today: sumOf(days.filter(({ start }) => start === today)), month: sumOf(days) }
}

function sumOf(days: readonly UsageTotal[]) {
  const sum = (read: (day: UsageTotal) => number): number =>
    Math.min(
      Number.MAX_SAFE_INTEGER,
      days.reduce((all, day) => all + read(day), 0),
    )
  return {
    answers: sum(({ answers }) => answers),
    inputTokens: sum(({ input }) => input),
    outputTokens: sum(({ output }) => output),
    totalTokens: sum(({ total }) => total),
  }
}

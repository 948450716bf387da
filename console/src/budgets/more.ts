/** More of a limit for a while: whose limit it is, and what forms hold of it. */

import type { Me } from '../api.ts'
import { textIn } from '../parts/dialog-form.tsx'
import { ungrouped } from '../parts/numbers.ts'
import { addressOf } from '../route.ts'
import { idOf, type Limit, type Named } from './budget.ts'

const dayMs = 86_400_000
export const maxDays = 92

/** Whether the person may ask for more of it, which only a limit by name can be given. */
export function mayAsk({ name, scope, enforced }: Limit, { credential }: Me): boolean {
  return credential === 'identity-token' && name !== null && scope !== 'key' && enforced
}

/** Where the form is. */
export function askAddress(limit: Named): string {
  return addressOf('budgets', { ask: idOf(limit) })
}

/** A limit as requests name it. */
export function namedOf({ subscription, model, name, whom }: Named) {
  return {
    ...(subscription === null ? model !== null && { model } : { subscription }),
    name,
    ...(whom !== undefined && { whom }),
  }
}

/** How much and how long. What is wrong with it, the API says. */
export function moreIn(form: FormData, kind: string) {
  const written = ungrouped(textIn(form, 'limit'))
  const until = Date.parse(textIn(form, 'until'))
  return {
    limit: kind !== 'cost' && /^\d+$/.test(written) ? Number(written) : written,
    until: Number.isNaN(until) ? '' : new Date(until).toISOString(),
  }
}

/** As a field of a date and time has it: by the clock of the browser, in whole minutes. */
export function toField(ms: number): string {
  const local = ms - new Date(ms).getTimezoneOffset() * 60_000
  return new Date(local).toISOString().slice(0, 16)
}

/** Until the window ends, if that is a while; else a week. */
export function usualEnd(resetsAt: string | null, now: number): number {
  const end = resetsAt === null ? 0 : Date.parse(resetsAt)
  return end > now + dayMs && end < now + maxDays * dayMs ? end : now + 7 * dayMs
}

/** Temporary increases of a limit: the fields that identify the limit, and the fields of forms. */

import type { Me } from '../api.ts'
import { now } from '../clock.ts'
import { textIn } from '../parts/dialog-form.tsx'
import { ungrouped } from '../parts/numbers.ts'
import { addressOf } from '../route.ts'
import { idOf, type Limit, type Named } from './budget.ts'

const dayMs = 86_400_000
export const maxDays = 92

/** Whether the person may request an increase of it; only limits by name can be increased. */
export function mayAsk({ name, scope, enforced }: Limit, { credential }: Me): boolean {
  return credential === 'identity-token' && name !== null && scope !== 'key' && enforced
}

/** The address of the form. */
export function askAddress(limit: Named): string {
  return addressOf('budgets', { ask: idOf(limit) })
}

/** The fields that identify a limit in requests. */
export function namedOf({ subscription, model, name, whom }: Named) {
  return {
    ...(subscription === null ? model !== null && { model } : { subscription }),
    name,
    ...(whom !== undefined && { whom }),
  }
}

/** Amount and end in a form. The API validates them. */
export function moreIn(form: FormData, kind: string) {
  const written = ungrouped(textIn(form, 'limit'))
  const until = Date.parse(textIn(form, 'until'))
  return {
    limit: kind !== 'cost' && /^\d+$/.test(written) ? Number(written) : written,
    until: Number.isNaN(until) ? '' : new Date(until).toISOString(),
  }
}

/** The value of a datetime field: the browser's local time, in whole minutes. */
export function toField(ms: number): string {
  const local = ms - new Date(ms).getTimezoneOffset() * 60_000
  return new Date(local).toISOString().slice(0, 16)
}

/** The end of the window if that is more than a day away; else a week. */
export function usualEnd(resetsAt: string | null): number {
  const at = now()
  const end = resetsAt === null ? 0 : Date.parse(resetsAt)
  return end > at + dayMs && end < at + maxDays * dayMs ? end : at + 7 * dayMs
}

/** Whether a caller may use a model: the union of all policies that name it (contract, 8.1). */

import type { Person } from './caller.ts'
import type { Model } from './snapshot.ts'

export function mayUse(caller: Person, model: Pick<Model, 'users' | 'groups'>): boolean {
  if (model.users.has(caller.user)) return true
  for (const group of caller.groups) if (model.groups.has(group)) return true
  return false
}

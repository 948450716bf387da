/** Explains that there is no such limit by name. */

import { ServiceError } from '../../formats/errors.ts'
import { joinFirst } from '../../formats/lists.ts'
import { resourceOfCounter } from '../../models/rules/shared-limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { OwnLimit } from './limit-state.ts'
import { limitsOfSelection, type NamedSelection } from './shared-limits.ts'

type Asked = Omit<NamedSelection, 'user'>

/**
 * Names the part of the question that is wrong, and the resources that have a limit with this name. For administrators
 * only.
 */
export async function unknownLimitError(asked: Asked, snapshot: Snapshot): Promise<ServiceError> {
  return new ServiceError('not_found', { message: await reasonOf(asked, snapshot) })
}

async function reasonOf({ subscription, model, name }: Asked, snapshot: Snapshot) {
  const [field, where] =
    model !== undefined
      ? (['model', `ModelRef ${model}`] as const)
      : subscription !== undefined
        ? (['subscription', `Subscription ${subscription}`] as const)
        : (['tenant', 'the Tenant'] as const)
  const there = (await limitsOfSelection({ subscription, model }, snapshot))
    .map(({ limit }) => limit)
    .filter(({ origin, limitName }) => origin === field && limitName !== undefined)
  const same = there.find(({ limitName }) => limitName === name)
  if (same?.scope === 'user') return `user is required: the limit of ${where} is per user.`
  if (same !== undefined) return `window: the limit of ${where} has the window ${same.window}.`
  const owners = few((await limitsOfSelection({ name }, snapshot)).map(showOwner))
  if (owners === '' && field === 'tenant') return 'name: no limit of this name is in force.'
  const hint = owners && `; others with a limit of this name: ${owners}`
  const known = few(there.map(({ limitName = '' }) => limitName))
  if (known !== '') return `name: ${where} has no limit of this name, only ${known}${hint}.`
  if (field === 'tenant') return `name: ${where} has no limit of this name${hint}.`
  return `${field}: ${where} is not in force, or has no limits by name${hint}.`
}

function showOwner({ counter, limit }: OwnLimit): string {
  const resource = resourceOfCounter(counter)
  const kind = limit.origin === 'subscription' ? 'Subscription ' : ''
  return `${kind}${resource.replace('/', ' ')}${limit.scope === 'user' ? ' (per user)' : ''}`
}

/** The first of them, each once. */
function few(words: readonly string[]): string {
  return joinFirst([...new Set(words)].sort(), 3)
}

/** Which limits by name begin new counters with a change: counters are called by a limit's resource, name, kind and window. */

import type { NamedLimit, WrittenCalendar } from '../../kinds/limits.ts'
import { windowOf } from '../../ratelimit/rules/named-limits.ts'
import { windowText } from '../../ratelimit/rules/windows.ts'
import { calendarOf } from './compile-subscription.ts'
import type { Snapshot } from './snapshot.ts'

/** By resource, then by name: `cost per user in day@Europe/Zurich`. */
type Counted = ReadonlyMap<string, ReadonlyMap<string, string>>

/** One sentence for each limit that is not continued. A limit that is only added has nothing to continue. */
export function newCounters(before: Snapshot, after: Snapshot): readonly string[] {
  const now = countedIn(after)
  return [
    ...[...countedIn(before)].flatMap(([resource, limits]) =>
      limitsBegun(resource, limits, now.get(resource) ?? new Map()),
    ),
    ...[...after.subscriptions.values()].flatMap(({ resource: { metadata, owner, limits } }) => {
      const earlier = before.subscriptions.get(metadata.name)?.resource.owner.groups ?? []
      const stay = earlier.filter((group) => owner.groups.includes(group))
      const isMoved = stay.some((group, i) => group !== owner.groups[i])
      return isMoved && limits.some(({ per }) => per === 'group')
        ? `Subscription ${metadata.name} names its groups in another order, or another one before them: who is in several of them draws on another pool`
        : []
    }),
  ]
}

function limitsBegun(
  resource: string,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): readonly string[] {
  const gone = [...before].filter(([name]) => !after.has(name))
  return [...after].flatMap(([name, counted]) => {
    const earlier = before.get(name)
    if (earlier === counted) return []
    const begins = `${resource}: the limit ${name} begins new counters`
    if (earlier !== undefined) return `${begins}, because it was ${earlier} and is ${counted}`
    const renamed = gone.find(([, each]) => each === counted)
    return renamed === undefined ? [] : `${begins}, if it is ${renamed[0]} by another name`
  })
}

function countedIn({ subscriptions, models, tenant }: Snapshot): Counted {
  const all = new Map<string, ReadonlyMap<string, string>>()
  const add = (resource: string, limits: readonly NamedLimit[], calendar?: WrittenCalendar) =>
    all.set(
      resource,
      new Map(
        limits.map((limit) => {
          const window =
            limit.of === 'concurrency' ? '' : ` in ${windowText(windowOf(limit, calendar))}`
          return [limit.name, `${limit.of} per ${limit.per}${window}`]
        }),
      ),
    )
  for (const { name, resource } of subscriptions.values()) {
    add(`Subscription ${name}`, resource.limits, calendarOf(resource, tenant))
  }
  for (const { key, resource } of models.values()) {
    add(`ModelRef ${key}`, resource.limits, tenant?.calendar)
  }
  if (tenant !== undefined) add('Tenant', tenant.limits, tenant.calendar)
  return all
}

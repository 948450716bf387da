/**
 * Which limits by name begin new counters with a change: a counter is identified by its limit's resource, name, kind
 * and window.
 */

import type { LimitScope, NamedLimit, WrittenCalendar } from '../../kinds/limits.ts'
import { limitWindow } from '../../ratelimit/rules/counted-limits.ts'
import { windowText } from '../../ratelimit/rules/windows.ts'
import { calendarOf } from './compile-subscription.ts'
import type { Snapshot } from './snapshot.ts'

/** A limit, and the unit, owner and window of its counter: `cost per user in day@Europe/Zurich`. */
interface Counted {
  readonly resource: string
  readonly name: string
  readonly per: LimitScope
  readonly counted: string
}

const idOf = ({ resource, name }: Counted): string => `${resource} ${name}`

/** One sentence for each limit whose counters are not continued. A new limit has nothing to continue. */
export function newCounters(before: Snapshot, after: Snapshot): readonly string[] {
  const [were, are] = [countedIn(before), countedIn(after)]
  const known = new Map(were.map((each) => [idOf(each), each]))
  const kept = new Set(are.map(idOf))
  const gone = were.filter((each) => !kept.has(idOf(each)))
  return [
    ...are.flatMap((limit) => sentenceOn(limit, known.get(idOf(limit)), gone)),
    ...[...after.subscriptions.values()].flatMap(({ resource: { metadata, owner, limits } }) => {
      const earlier = before.subscriptions.get(metadata.name)?.resource.owner.groups ?? []
      const stay = earlier.filter((group) => owner.groups.includes(group))
      const isMoved = stay.some((group, i) => group !== owner.groups[i])
      return isMoved && limits.some(({ per }) => per === 'group')
        ? `Subscription ${metadata.name} lists its groups in another order, or another one before them: users in several of them use the counter of another group`
        : []
    }),
  ]
}

/**
 * One sentence for each limit that a resource no longer has, not even under another name: it may have been removed by
 * mistake.
 */
export function removedLimits(before: Snapshot, after: Snapshot): readonly string[] {
  const [were, are] = [countedIn(before), countedIn(after)]
  const [known, kept] = [new Set(were.map(idOf)), new Set(are.map(idOf))]
  const renamed = are.filter((each) => !known.has(idOf(each)))
  const isRenamed = ({ resource, counted }: Counted) =>
    renamed.some((each) => each.resource === resource && each.counted === counted)
  const gone = were.filter((each) => !kept.has(idOf(each)) && !isRenamed(each))
  return gone.map(({ resource, name }) => `${resource}: the limit ${name} is gone`)
}

function sentenceOn(
  limit: Counted,
  before: Counted | undefined,
  gone: readonly Counted[],
): string | readonly [] {
  const { resource, name, counted } = limit
  if (before?.counted === counted) return []
  const begins = `${resource}: the limit ${name} begins new counters`
  if (before !== undefined) {
    const { counted: was } = before
    return `${begins}, because it was ${was} and is ${counted}${continued(before, limit)}`
  }
  // The limit, or its resource, may have been renamed.
  const same = gone.filter((each) => each.counted === counted)
  const own = same.find((each) => each.resource === resource)
  if (own !== undefined) return `${begins}, if it is ${own.name} by another name`
  const moved = same.find((each) => each.name === name)
  return moved === undefined ? [] : `${begins}, if it is that of ${moved.resource}`
}

/** Which counters go on where only `per` has changed: it is not in their keys, unlike the names of whom they count. */
function continued(before: Counted, limit: Counted): string {
  const plain = ({ counted, per }: Counted): string => counted.replace(` per ${per}`, '')
  if (plain(before) !== plain(limit)) return ''
  const [kind] = limit.resource.split(' ')
  const who = sameKeys.get([kind, ...[before.per, limit.per].toSorted()].join(' '))
  // When a window of a length begins depends on the counter's owner, which differs for a user and for a group or
  // Subscription of the same name. Windows of the calendar (`@`) begin at the same time for all.
  const goesOn = who !== equalNames || limit.counted.includes('@')
  return who !== undefined && goesOn ? `; ${who} continue the earlier counter` : ''
}

const equalNames = 'equal names'
/** By kind of resource and both `per`, in alphabetical order. */
const sameKeys = new Map([
  ['Subscription group subscription', 'owners by user name'],
  ['Tenant installation organization', 'Subscriptions without an organization'],
  ['Subscription group user', equalNames],
  ['Tenant organization user', equalNames],
  ['ModelRef subscription user', equalNames],
])

function countedIn({ subscriptions, models, tenant }: Snapshot): readonly Counted[] {
  const of = (resource: string, limits: readonly NamedLimit[], calendar?: WrittenCalendar) =>
    limits.map((limit) => {
      const window = windowText(limitWindow(limit, calendar))
      const counted = `${limit.of} per ${limit.per}${limit.of === 'concurrency' ? '' : ` in ${window}`}`
      return { resource, name: limit.name, per: limit.per, counted }
    })
  return [
    ...[...subscriptions.values()].flatMap(({ name, resource }) =>
      of(`Subscription ${name}`, resource.limits, calendarOf(resource, tenant)),
    ),
    ...[...models.values()].flatMap(({ key, resource }) =>
      of(`ModelRef ${key}`, resource.limits, tenant?.calendar),
    ),
    ...of('Tenant', tenant?.limits ?? [], tenant?.calendar),
  ]
}

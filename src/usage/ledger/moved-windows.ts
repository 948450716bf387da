/** Windows of calendars whose ends another edition of the time zone database moves: they are compared by local date. */

import { readWindowText, spanAt } from '../../ratelimit/rules/windows.ts'
import type { LimitGroup, LimitRow } from '../store.ts'

/** More than editions differ by, and less than a day has. */
const halfDayMs = 43_200_000

/**
 * Where a sum is to be compared: in the window of its date, as it begins by this process's edition. Windows between which a
 * row of the ledger shows that an end has moved, because it has a charge from outside of its own, are one, the first of
 * them. `nameOf`: the same text for the same window.
 */
export function comparedWindows(
  ledger: readonly LimitRow[],
  nameOf: (group: LimitGroup) => string,
): <Group extends LimitGroup>(group: Group) => Group {
  const joined = new Map<string, number>()
  const ownOf = <Group extends LimitGroup>(group: Group): Group => {
    return { ...group, begin: beginOf(group, group.begin + halfDayMs) }
  }
  const homeOf = <Group extends LimitGroup>(group: Group): Group => {
    const own = ownOf(group)
    return { ...own, begin: joined.get(nameOf(own)) ?? own.begin }
  }
  for (const row of ledger.toSorted((a, b) => a.begin - b.begin)) {
    const own = ownOf(row)
    for (const at of [row.first, row.last]) {
      const other = { ...own, begin: beginOf(own, at) }
      if (other.begin === own.begin) continue
      const [first, next] = other.begin < own.begin ? [other, own] : [own, other]
      joined.set(nameOf(next), homeOf(first).begin)
    }
  }
  return homeOf
}

/** Of its window at an instant; one that is no calendar's begins alike everywhere. */
function beginOf({ window, begin }: LimitGroup, at: number): number {
  const read = readWindowText(window)
  return read !== undefined && 'every' in read ? spanAt(read, '', at).start : begin
}

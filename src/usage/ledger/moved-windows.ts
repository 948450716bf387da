/**
 * Windows of calendars whose ends differ between versions of the time zone database: they are compared by local date.
 */

import { boundsAt, parseWindowText } from '../../ratelimit/rules/windows.ts'
import type { LimitGroup, LimitRow } from '../store.ts'

/** More than the difference between versions, and less than a day. */
const halfDayMs = 43_200_000

/**
 * Returns the window in which a sum is compared: the one with its date, which begins when it does in this process's
 * version. If a row of the ledger has a charge from outside of its window, an end has moved, and both windows are
 * compared as one, the first of them. `nameOf`: returns equal texts for equal windows.
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

/** The begin of the calendar's window at an instant; other windows begin at the same time in all versions. */
function beginOf({ window, begin }: LimitGroup, at: number): number {
  const read = parseWindowText(window)
  return read !== undefined && 'every' in read ? boundsAt(read, '', at).start : begin
}

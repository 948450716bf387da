/** Under which name a user is counted: the one in lines, whose length is bounded. */

import { toBoundJson } from '../../formats/bound-text.ts'

/** The most bytes of a user's name in a line, with its quotes and escapes. */
export const userBytes = 640
/** An escaped UTF-16 unit has at most six bytes, and there are two quotes. */
const shortUser = Math.floor((userBytes - 2) / 6)

/** A user as lines name it; the same again for such a name. */
export function userInLines(user: string): string {
  // Whatever has to be escaped: each Check asks this for each limit.
  if (user.length <= shortUser) return user
  return JSON.parse(toBoundJson(user, userBytes)) as string
}

/** Under which names users, groups and organizations are counted: those in lines, whose length is bounded. */

import { toBoundJson } from '../../formats/bound-text.ts'

/** The most bytes of a user's name in a line, with its quotes and escapes; and of a group's or an organization's. */
export const userBytes = 640
export const groupBytes = 256

/** A user as lines name it; the same again for such a name. */
export function userInLines(user: string): string {
  return inLines(user, userBytes)
}

/** The same of a group, or an organization. */
export function groupInLines(group: string): string {
  return inLines(group, groupBytes)
}

function inLines(name: string, bytes: number): string {
  // Whatever has to be escaped, of which a UTF-16 unit has at most six bytes; each Check asks this for each limit.
  if (name.length <= (bytes - 2) / 6) return name
  return JSON.parse(toBoundJson(name, bytes)) as string
}

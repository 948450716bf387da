/** Names of users in labels. */

import { createHmac } from 'node:crypto'
import { getOrAdd } from '../formats/lists.ts'
import { BoundedMap } from '../runtime/bounded-map.ts'
import type { UserNaming } from './usage-labels.ts'

/** Maximum number of cached hashes; every request needs a label. */
const maxHashes = 50_000
const hashLength = 12

/**
 * The label of a user: the name, or the first 12 hexadecimal characters of its HMAC-SHA-256 with
 * `key` (the same in every process with this key), or empty for all users.
 */
export function createUserNames(key: string): (user: string, naming: UserNaming) => string {
  const hashes = new BoundedMap<string, string>(maxHashes)
  return function nameOf(user, naming) {
    if (naming === 'on') return user
    if (naming === 'off') return ''
    return getOrAdd(hashes, user, () =>
      createHmac('sha256', key).update(user).digest('hex').slice(0, hashLength),
    )
  }
}

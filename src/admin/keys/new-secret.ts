/** A new secret of a key, as the store has it, and as only one response shows it. */

import { randomBytes } from 'node:crypto'
import { keyIdBytes, keySecretBytes, mintKey, printablePrefixOf } from '../../keys/rules/api-key.ts'

export function newSecret(marker: string) {
  const id = randomBytes(keyIdBytes)
  const { key, hash, prefix } = mintKey(marker, id, randomBytes(keySecretBytes))
  return {
    secret: { hash, prefix: printablePrefixOf(key) ?? null },
    shown: { key, keyPrefix: prefix },
  }
}

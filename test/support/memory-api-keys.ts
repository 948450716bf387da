import { randomBytes, randomUUID } from 'node:crypto'
import {
  type ApiKeyRecord,
  keyIdBytes,
  keySecretBytes,
  mintKey,
} from '../../src/keys/rules/api-key.ts'
import { compileCaps } from '../../src/keys/rules/compiled-caps.ts'
import type { KeyLookup } from '../../src/keys/store.ts'

/** Keys in a Map: the part of a store that the request path uses, and a way to add keys. */
export interface MemoryApiKeys extends KeyLookup {
  /** Creates a key with these properties and returns its plaintext. */
  mint(record?: Partial<ApiKeyRecord>, marker?: string): string
  /** Every record, by hash. */
  readonly records: Map<string, ApiKeyRecord>
  /** The hashes that were looked up, in order. */
  readonly asked: string[]
}

export function createMemoryApiKeys(): MemoryApiKeys {
  const records = new Map<string, ApiKeyRecord>()
  const asked: string[] = []
  return {
    records,
    asked,
    findByHash(hash) {
      asked.push(hash)
      const record = records.get(hash)
      const capped = record && compileCaps(record)
      return record && { ...record, ...(capped && { capped }) }
    },
    mint(more = {}, marker = 'tg') {
      const { key, hash } = mintKey(marker, randomBytes(keyIdBytes), randomBytes(keySecretBytes))
      records.set(hash, { ...recordOf(hash), ...more })
      return key
    },
  }
}

/** An active record for this hash, of ada in team-a, under `basic`. */
export function recordOf(hash: string): ApiKeyRecord {
  return {
    id: randomUUID(),
    hash,
    prefix: null,
    user: 'ada',
    groups: ['team-a'],
    name: 'test',
    description: '',
    labels: {},
    caps: {},
    subscription: 'basic',
    status: 'active',
    ephemeral: false,
    createdAt: 0,
    expiresAt: null,
    lastUsedAt: null,
  }
}

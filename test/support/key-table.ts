import type { Freshness } from '../../src/keys/cached-api-keys.ts'
import type { ApiKeyTable, FoundKey } from '../../src/keys/store.ts'
import { createRecord } from './key-store.ts'

/** A table in memory, for tests of the order of events. It only supports look-ups. */
export interface FakeTable {
  readonly table: ApiKeyTable
  readonly rows: Map<string, FoundKey>
  /** The hashes of each query, in order. */
  readonly queries: (readonly string[])[]
  /** From now on queries wait after reading, until the returned function is called. */
  hold(): () => void
  /** Queries fail with this error from now on, until it is undefined. */
  failWith(error: Error | undefined): void
  /** Adds an active key and returns its row. */
  add(fields?: Partial<FoundKey>): FoundKey
}

export function createFakeTable(): FakeTable {
  const rows = new Map<string, FoundKey>()
  const queries: (readonly string[])[] = []
  let held: Promise<void> | undefined
  let failure: Error | undefined

  async function read<Result>(result: Result): Promise<Result> {
    if (failure !== undefined) throw failure
    await held
    return result
  }

  const methods: Partial<ApiKeyTable> = {
    findByHashes(hashes) {
      queries.push(hashes)
      return read(hashes.flatMap((hash) => rows.get(hash) ?? []))
    },
    findLastUsed: (limit) => read([...rows.values()].slice(0, limit)),
    async revoke(id) {
      for (const row of rows.values()) {
        if (row.id === id) rows.set(row.hash, { ...row, status: 'revoked' })
      }
      const row = [...rows.values()].find((each) => each.id === id)
      return row && { ...createRecord(row), transaction: '1' }
    },
    async insert(record) {
      rows.set(record.hash, record)
    },
  }
  return {
    table: methods as ApiKeyTable,
    rows,
    queries,
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      return () => {
        held = undefined
        resolve()
      }
    },
    failWith(error) {
      failure = error
    },
    add(fields = {}) {
      const row: FoundKey = { ...createRecord(), ...fields }
      rows.set(row.hash, row)
      return row
    },
  }
}

/** A cache that is always confirmed. */
export const alwaysFresh: Freshness = {
  state: () => 'confirmed',
  ageMs: () => 0,
  confirm: () => Promise.resolve(),
}

/** A Freshness whose state the test sets. */
export interface FakeFreshness extends Freshness {
  is: ReturnType<Freshness['state']>
  age: number
  /** Called by each `confirm`; returns the state after it. */
  onConfirm: () => FakeFreshness['is']
  confirms: number
}

export function createFakeFreshness(): FakeFreshness {
  const freshness: FakeFreshness = {
    is: 'confirmed',
    age: 0,
    confirms: 0,
    onConfirm: () => 'confirmed',
    state: () => freshness.is,
    ageMs: () => freshness.age,
    async confirm() {
      freshness.confirms += 1
      await Promise.resolve()
      freshness.is = freshness.onConfirm()
    },
  }
  return freshness
}

/** The data of the benches: models, subscriptions and keys of a busy gateway. */

import type { KeyCaller } from '../src/identity/rules/caller.ts'
import { mintKey } from '../src/keys/rules/api-key.ts'
import { compileCaps } from '../src/keys/rules/compiled-caps.ts'
import type { KeyCaps } from '../src/keys/rules/key-caps.ts'
import type { ApiKeyTable, FoundKey } from '../src/keys/store.ts'
import type { Resource } from '../src/kinds/resources.ts'
import { parseResource } from '../src/models/rules/reading/parse-resource.ts'
import type { Snapshot } from '../src/models/rules/snapshot.ts'
import { createTelemetry, type Telemetry } from '../src/telemetry/telemetry.ts'
import { createLineSettler, type LineSettler } from '../src/usage/settle.ts'
import { compile } from '../test/support/compile.ts'

const apiVersion = 'tollgate.dev/v1alpha1'

/**
 * A snapshot of models `llm/m<i>` from `first` on, open to all users, and a subscription per team: for all of them, or
 * for `covered` models each, one team after another, with `limits` in addition to limits of tokens. `model` and
 * `subscription` are further fields of their specs.
 */
export function createSnapshot(
  models: number,
  teams: number,
  { covered = models, first = 0, limits = {}, model = {}, subscription = {} } = {},
): Snapshot {
  const modelRefs = Array.from({ length: models }, (_, i) => ({
    namespace: 'llm',
    name: `m${first + i}`,
  }))
  const names = Array.from({ length: teams }, (_, i) => `team-${i}`)
  const groups = (teams > 100 ? ['everybody'] : names).map((name) => ({ name }))
  const tokenRateLimits = [
    { limit: 1_000_000_000, window: '1m' },
    { limit: 1_000_000_000, window: '24h' },
  ]
  return compile([
    ...modelRefs.map((metadata) =>
      resource('ModelRef', metadata, {
        modelRef: { kind: 'LLMInferenceService', name: metadata.name },
        backendUrl: 'http://127.0.0.1:8090',
        ...model,
      }),
    ),
    resource('AccessPolicy', { name: 'all' }, { modelRefs, subjects: { groups } }),
    ...names.map((name, team) =>
      resource(
        'Subscription',
        { name },
        {
          owner: { groups: [{ name }] },
          ...subscription,
          modelRefs: Array.from({ length: covered }, (_, k) => ({
            ...modelRefs[(team * covered + k) % models],
            tokenRateLimits,
            ...limits,
          })),
        },
      ),
    ),
  ])
}

function resource(kind: string, metadata: object, spec: object): Resource {
  const parsed = parseResource({ apiVersion, kind, metadata, spec })
  if (!('resource' in parsed)) throw new Error(JSON.stringify(parsed))
  return parsed.resource
}

/** A caller of a team, as from one of its keys. */
export function createCaller(i: number, teams: number): KeyCaller {
  const team = `team-${i % teams}`
  return {
    by: 'key',
    user: `user-${i}`,
    groups: ['everybody', team],
    keyId: `${i}`,
    subscription: team,
  }
}

/** Keys with their records. The random bytes are derived from the index, so that runs are comparable. */
export function createKeys(
  count: number,
  teams: number,
  caps: KeyCaps = {},
): { keys: string[]; table: ApiKeyTable } {
  const records = new Map<string, FoundKey>()
  const keys = Array.from({ length: count }, (_, i) => {
    const minted = mintKey('tg', bytes(12, i), bytes(32, i))
    const { user, groups, subscription } = createCaller(i, teams)
    const capped = compileCaps({ id: `${i}`, user, subscription, caps })
    records.set(minted.hash, {
      ...(capped && { capped }),
      id: `${i}`,
      hash: minted.hash,
      user,
      groups,
      subscription,
      status: 'active',
      createdAt: 0,
      expiresAt: null,
    })
    return minted.key
  })
  const unused = (): never => {
    throw new Error('not used by the bench')
  }
  const findByHashes = async (hashes: readonly string[]): Promise<readonly FoundKey[]> =>
    hashes.flatMap((hash) => records.get(hash) ?? [])
  const table = new Proxy({} as ApiKeyTable, {
    get: (_, method) => (method === 'findByHashes' ? findByHashes : unused),
  })
  return { keys, table }
}

function bytes(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (seed * 2_654_435_761 + i * 40_503) >>> 13)
}

/** The service's metrics, with counters but without readings. */
export function createBenchTelemetry(): Telemetry {
  return createTelemetry({
    ...{ version: 'bench', sources: {}, histograms: () => [], proofs: () => [] },
    limitRatios: async () => [],
    usage: { userKey: undefined, written() {}, attributionOf() {} },
  })
}

/** What settles lines for these metrics alone. */
export function createBenchSettle(telemetry: Telemetry): LineSettler {
  return createLineSettler({
    clock: Date.now,
    holds: { follow() {}, release() {}, learn() {} },
    all: { onEnded() {} },
    writer: {
      ...{ onEnded: telemetry.onEnded, onAdmitted: telemetry.onAdmitted },
      onCharged(usage, { tokens = 0, estimated }) {
        telemetry.onCounted(usage, { tokens, estimated })
      },
    },
  })
}

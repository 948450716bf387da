import { modelRef, type WrittenDocument } from '../documents.ts'
import type { Random } from '../random.ts'

/** Together they have every field; each generated document is one of these with a few changes. */
export const originals: readonly WrittenDocument[] = [
  modelRef('small', {
    endpointOverride: 'https://small.example/x',
    modelIds: ['Small-7B', 'small:latest'],
    credential: { header: 'Api-Key', prefix: 'Token ', file: 'provider.key' },
    upstreamModel: 'org/Model-7B:latest',
    caFile: 'ca.pem',
    timeouts: { connect: '500ms', idle: '60s', answer: '10m' },
    retries: 1,
    paths: 'all',
    modelFields: ['fallbacks', 'tools[].model'],
    state: 'shared',
    output: {
      maxTokens: 4_096,
      honoursMaxTokens: false,
      maxTokensField: 'max_tokens',
      usageInEveryChunk: true,
      usageOfAllAnswers: false,
      streamUsage: 'unasked',
    },
    limits: [
      { name: 'a', per: 'model', of: 'tokens', limit: 2_000_000, window: '1m', enforce: true },
    ],
  }),
  modelRef('large', { credential: { secretRef: { name: 'provider', key: 'api-key' } } }),
  modelRef('bare', { backendUrl: undefined }),
  document('AccessPolicy', 'open', {
    modelRefs: [
      { namespace: 'llm', name: 'small' },
      { namespace: 'llm', name: 'large' },
    ],
    subjects: { users: ['ada'], groups: [{ name: 'team-a' }, { name: 'team-b' }] },
    meteringMetadata: { organizationId: 'o', costCenter: 'c', labels: { a: 'b' } },
  }),
  document('Subscription', 'team-a', {
    owner: { users: ['ada'], groups: [{ name: 'team-a' }] },
    modelRefs: [
      {
        namespace: 'llm',
        name: 'small',
        tokenRateLimits: [
          { limit: 100, window: '1m' },
          { limit: 1000, window: '24h' },
        ],
        requestRateLimits: [{ limit: 60, window: '1m' }],
        concurrency: 5,
        billingRate: {
          perToken: '0.01',
          perInputToken: '0.02',
          perOutputToken: '3e-2',
          perCachedToken: '0',
          perCacheWriteToken: '0.025',
          perRequest: '0.1',
        },
        weights: { cached: 0.1, cacheWrite: 1.25, output: 4 },
      },
      { namespace: 'llm', name: 'small', tokenRateLimits: [{ limit: 1, window: '8784h' }] },
    ],
    limits: [
      { name: 'team', per: 'group', of: 'cost', limit: '500', window: 'month', enforce: true },
      {
        name: 'a',
        of: 'input',
        limit: 1_000,
        window: '1m',
        models: [{ namespace: 'llm', name: 'small' }],
      },
      { name: 'b', per: 'subscription', of: 'concurrency', limit: 5, enforce: false },
    ],
    calendar: { timeZone: 'Europe/Zurich', weekStartsOn: 'sunday', monthStartsOn: 28 },
    tokenMetadata: { organizationId: 'o', costCenter: 'c', labels: { a: 'b' } },
    admission: { mode: 'reserve', overshootPercent: 10, charge: 'admission' },
    notify: { at: [80, 100] },
    priority: 5,
  }),
  document('Tenant', 'default-tenant', {
    limits: [
      {
        name: 'a',
        per: 'organization',
        of: 'cost',
        limit: '0.25',
        window: 'week',
        models: [{ namespace: 'llm', name: 'small' }],
        enforce: false,
      },
    ],
    calendar: { timeZone: 'America/Santiago', weekStartsOn: 'monday', monthStartsOn: 1 },
    apiKeys: { maxExpirationDays: 30 },
    externalOIDC: { issuerUrl: 'https://issuer.example/realm', clientId: 'tollgate', ttl: 60 },
    telemetry: {
      enabled: true,
      metrics: {
        captureOrganization: true,
        captureUser: false,
        captureGroup: true,
        captureModelUsage: false,
      },
    },
  }),
]

function document(kind: string, name: string, spec: Record<string, unknown>): WrittenDocument {
  const metadata = { name, namespace: 'models-as-a-service' }
  return { apiVersion: 'tollgate.dev/v1alpha1', kind, metadata, spec }
}

const texts: readonly string[] = [
  ...['', 'a', 'A', 'a.b', 'a..b', '.', '..', '-a', 'a-', 'a_b', 'a/b', 'a b', 'a"b', 'a\\b', 'ä'],
  ...['a\nb', 'a\n', '\ta', '\u007f', '\u0000', '\u00a0', '\u2028', '\u{1f600}', 'llm', 'small'],
  ...[62, 63, 64, 127, 128, 129, 252, 253, 254, 256, 257].map((length) => 'x'.repeat(length)),
  ...[32, 63, 64, 128, 256, 257].map((length) => '\u{1f600}'.repeat(length)),
  ...[1_024, 1_025, 2_048, 2_049].map((length) => 'y'.repeat(length)),
  ...[
    '1m',
    '60s',
    '9999h',
    '8784h',
    '8785h',
    '0m',
    '01m',
    '1d',
    '10000s',
    '9999s',
    '9999m',
    '1h30m',
  ],
  ...['500ms', '0ms', '1ms', '60000ms', '60001ms', '1.5s', '0.001s', '0.0001s', '24h', '24h1s'],
  ...['0.5m', '1m30s', '59.999s', '60.001s', '.5s', '5', 's', '1h1h', '86400s', '86401s', '1e3s'],
  ...['10s', '30s', '5m', '1h', '3600s', '60m', '7s', '+5s', '-5s', '1us', '5000000000ms'],
  ...['http://a', 'https://a.b:80/c', 'http://a:0', 'http://a:65535', 'http://a:65536', 'http://'],
  ...[
    'http://a:',
    'HTTP://a',
    'ftp://a',
    '//a',
    'http:a',
    'http://a@b',
    'http://a:b@c',
    'http://a?b',
  ],
  ...[
    'http://a#b',
    'http://a/b?c',
    'http://a/@b',
    'http://1.2.3.4',
    'http://1.2.3.256',
    'http://1.2.3',
  ],
  ...[
    'http://1.2.3.4.5',
    'http://a.1',
    'http://[::1]:80',
    'http://a b',
    'http://a/b c',
    'http://ä',
  ],
  ...['http://a_b', 'http://-a', 'http://a..b', 'http://a.', 'http://7b-chat', 'http://a/%zz'],
  ...[
    'https://issuer.example',
    'https://',
    'https://a b',
    'https://a?b',
    'https://a#b',
    'https://ä',
  ],
  ...['host', 'Content-Type', 'Connection', 'x-envoy-a', 'X-Api-Key', 'x-maas-', 'te', ':path'],
  ...[
    'day',
    'month',
    'cost',
    'concurrency',
    'tokens',
    'group',
    '500',
    '0.1',
    '0.0000000001',
    '1e3',
  ],
  ...['9000000000', '9000000000.01', '8999999999.123456789', '0.000', '00.5', 'UTC', 'Mars/Base'],
  ...['LLMInferenceService', 'ExternalModel', 'Service', 'known', 'all', 'Bearer ', ' a', '~', '!'],
]

const values: readonly unknown[] = [
  ...[0, 1, -1, 5, 6, 29, 30, 31, 36_500, 36_501, 1_000_000_000, 1_000_000_001, 1.5, -0.5],
  ...[0.1, 0.007, 1.0005, 1.001, 99.999, 100, 100.001, 1_000_000_000_000_001],
  ...[2_147_483_647, 2_147_483_648, -2_147_483_648, -2_147_483_649, 9_007_199_254_740_991],
  ...[
    null,
    true,
    false,
    [],
    {},
    [1],
    ['a'],
    [{}],
    [{ name: 'a' }],
    { name: 'a' },
    { a: 1 },
    { a: 'b' },
  ],
  ...[{ users: ['a'] }, { users: [] }, { groups: [{ name: 'a' }] }, { labels: { a: 5 } }],
]

type Place = readonly [container: Record<string | number, unknown>, key: string | number]

/** Every field below `spec`, and `spec` itself. */
function placesIn(container: object, keys: readonly (string | number)[]): Place[] {
  return keys.flatMap((key) => {
    const inside = (container as Record<string | number, unknown>)[key]
    const own: Place = [container as Record<string | number, unknown>, key]
    if (typeof inside !== 'object' || inside === null) return [own]
    const below = Array.isArray(inside) ? [...inside.keys()] : Object.keys(inside)
    return [own, ...placesIn(inside, below)]
  })
}

/**
 * One of these documents with none to three changes: a value replaced, removed, added or repeated.
 */
export function generateDocument(random: Random): WrittenDocument {
  const pick = <T>(from: readonly T[]): T => from[random.below(from.length)] as T
  const made = structuredClone(pick(originals))
  for (let left = random.below(4); left > 0; left -= 1) {
    const [container, key] = pick(placesIn(made, ['spec']))
    const inside = container[key]
    const act = random.below(12)
    if (act < 5) container[key] = pick(texts)
    else if (act < 8) container[key] = structuredClone(pick(values))
    else if (act < 10 && !Array.isArray(container)) delete container[key]
    else if (Array.isArray(inside)) inside.push(...structuredClone(inside))
    else if (typeof inside === 'object' && inside !== null)
      Object.assign(inside, { more: pick(texts) })
    else container[key] = pick(texts)
  }
  return made
}

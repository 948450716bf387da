import { writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { test } from 'tap'
import { settings } from '../../src/settings/all-settings.ts'
import { checkSockets } from '../../src/settings/check-files.ts'
import { ConfigError, loadConfig } from '../../src/settings/config.ts'
import { misspeltSettings } from '../../src/settings/misspelt.ts'
import { removedSettings } from '../../src/settings/removed-settings.ts'
import { sampleResourceFolder, sampleTokensFile } from '../../src/settings/sample.ts'
import { inPod } from '../support/in-pod.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

test('without settings the defaults apply', async (t) => {
  t.match(loadConfig({}), {
    gatewayAddress: { host: '127.0.0.1', port: 8000 },
    grpcAddresses: [{ host: '127.0.0.1', port: 8082 }],
    gatewayUrl: 'http://127.0.0.1:8000',
    envoyAdminAddress: { path: resolve('.data/envoy-admin.sock') },
    databaseUrl: undefined,
    resourceFolder: resolve('examples/resources'),
    maxExpirationDays: 90,
    keyMarker: 'tg',
    acceptedMarkers: new Set(['tg', 'oai']),
  })
})

test('all invalid settings are reported at once', async (t) => {
  const bad = {
    GATEWAY_ADDRESS: 'nowhere',
    API_ADDRESS: '127.0.0.1:65536',
    GRPC_ADDRESS: '127.0.0.1:1,unix:relative',
    GATEWAY_URL: 'ftp://host',
    DATABASE_URL: 'mysql://host/db',
    REDIS_URL: 'redis+cluster://',
    RESOURCES: 'folder',
    API_KEY_MAX_EXPIRATION_DAYS: '0',
    API_KEY_MARKER: 'T-G',
    DB_MAX_OPEN_CONNS: '1.5',
    ON_COUNTER_LOSS: 'maybe',
    USAGE_JOURNAL_BYTES: '1k',
    METRICS_ADDRESS: '9464',
    LOG_LEVEL: 'loud',
    OIDC_ISSUER_URL: 'http://issuer',
    OIDC_CLIENT_ID: 'tollgate',
    OIDC_OUTAGE_GRACE: '2d',
    TRUSTED_PROXIES: '10.0.0.0/33',
    KUBERNETES_TOKEN_REVIEW: 'on',
    ADMIN_ACCESS_REVIEW: 'accesspolicies',
  }
  const named = problemsOf(bad).map((problem) => problem.slice(0, problem.indexOf(':')))
  t.strictSame([...new Set(named)].sort(), Object.keys(bad).sort())
})

test('a receiver of notices has no user and no password, which are not shown', async (t) => {
  const secret = { NOTIFY_SECRET: `whsec_${Buffer.alloc(32).toString('base64')}` }
  const read = (url: string) => loadConfig({ ...secret, NOTIFY_URL: url }).notifyUrl
  t.equal(read('https://hooks.example/?key=pass'), 'https://hooks.example/?key=pass')
  for (const user of ['user:pass@', 'user@', ':pass@']) {
    const message = /NOTIFY_URL: must be a URL [^\n]* without a user and a password(?!.*pass@)/s
    t.throws(() => read(`https://${user}hooks.example/`), { message }, user)
  }
})

test('an invalid value is shown on one line', async (t) => {
  t.throws(() => loadConfig({ LOG_LEVEL: 'loud\n\u001b[31m' }), {
    message: /^Bad settings:\n {2}LOG_LEVEL: must be [^\n]*, is "loud\\n\\u001b\[31m"$/,
  })
})

test('a journal is in DATA_DIR, elsewhere or off', async (t) => {
  const placeOf = (env: Record<string, string | undefined>) => loadConfig(env).usageJournal
  t.equal(placeOf({ USAGE_JOURNAL: 'a/usage.jsonl' }), resolve('a/usage.jsonl'))
  for (const written of [undefined, ''])
    t.equal(placeOf({ USAGE_JOURNAL: written, DATA_DIR: '/b' }), '/b/journal/usage.jsonl')
  t.equal(placeOf({ USAGE_JOURNAL: ' off' }), undefined)
})

test('addresses are read in every form', async (t) => {
  const { apiAddress, grpcAddresses } = loadConfig({
    API_ADDRESS: ':8080',
    GRPC_ADDRESS: '[::1]:0, unix:/run/a.sock,unix:///run/b.sock',
  })
  t.strictSame(apiAddress, { host: '0.0.0.0', port: 8080 })
  t.strictSame(grpcAddresses, [
    { host: '::1', port: 0 },
    { path: '/run/a.sock' },
    { path: '/run/b.sock' },
  ])
})

test('METER_PATHS names what is counted', async (t) => {
  const metered = (env: Record<string, string>) => [...loadConfig(env).paths.metered].sort()
  t.strictSame(metered({}), ['/v1/chat/completions'])
  t.strictSame(metered({ METER_PATHS: 'responses, messages' }), ['/v1/messages', '/v1/responses'])
  t.equal(loadConfig({}).paths.unmetered, 'open')
  t.equal(loadConfig({ UNMETERED_PATHS: 'closed' }).paths.unmetered, 'closed')
})

test('statuses are written only for watched groups', async (t) => {
  const groups = (env: Record<string, string>) => loadConfig(env).statusGroups
  const original = 'maas.opendatahub.io'
  t.strictSame(groups({}), ['tollgate.dev'])
  t.strictSame(groups({ WATCH_GROUPS: original }), [], 'nothing of the original by default')
  const both = `tollgate.dev,${original}`
  t.strictSame(groups({ STATUS_GROUPS: both }), ['tollgate.dev', original])
  t.strictSame(problemsOf({ WATCH_GROUPS: 'tollgate.dev', STATUS_GROUPS: both }), [
    `STATUS_GROUPS: names ${original}, which WATCH_GROUPS leaves out`,
  ])
  t.match(problemsOf({ STATUS_GROUPS: 'kuadrant.io' }), [
    /^STATUS_GROUPS: must be a comma-separated list/,
  ])
})

test('metrics are on loopback by default and may be off', async (t) => {
  t.strictSame(loadConfig({}).metricsAddress, { host: '127.0.0.1', port: 9464 })
  t.equal(loadConfig({ METRICS_ADDRESS: 'off' }).metricsAddress, undefined)
})

test('a secret may be read from a file', async (t) => {
  const file = join(temporaryFolder(t), 'url')
  writeFileSync(file, 'postgres://user:secret@host/db\n')
  t.equal(loadConfig({ DATABASE_URL_FILE: file }).databaseUrl, 'postgres://user:secret@host/db')
  t.match(problemsOf({ DATABASE_URL_FILE: '/nowhere' }), [/^DATABASE_URL_FILE: cannot read/])
  const empty = join(temporaryFolder(t), 'empty')
  writeFileSync(empty, '\n')
  t.match(
    problemsOf({ DATABASE_URL_FILE: empty, REDIS_URL_FILE: empty }),
    [/^DATABASE_URL_FILE: .*empty is empty$/, /^REDIS_URL_FILE: .* is empty$/],
    'not as if they were unset',
  )
  const both = { DATABASE_URL: 'postgres://host/db', DATABASE_URL_FILE: file }
  t.match(problemsOf(both), [/not both/])
})

test('an invalid value of a file is shown as one', async (t) => {
  const LOG_LEVEL_FILE = join(temporaryFolder(t), 'level')
  writeFileSync(LOG_LEVEL_FILE, 'loud')
  t.match(problemsOf({ LOG_LEVEL_FILE }), [
    /^LOG_LEVEL: must be .*, is "loud" \(from LOG_LEVEL_FILE\)$/,
  ])
})

test('a replica is named by host and address', async (t) => {
  const name = (env: Record<string, string>) => loadConfig(env).replicaName
  t.equal(name({}), `${hostname()}/127.0.0.1:8082`)
  t.equal(name({ GRPC_ADDRESS: 'unix:/run/t.sock,:1' }), `${hostname()}/unix:/run/t.sock`)
  t.equal(name({ GRPC_ADDRESS: ':0' }), `${hostname()}/0.0.0.0:0#${process.pid}`)
  t.equal(name(inPod('blue')), 'blue')
  const place = (env: Record<string, string>) => loadConfig(env).replicaPlace
  t.equal(place(inPod('blue')), place({}), 'two replicas may have the same name')
  t.not(place({ GRPC_ADDRESS: ':8083' }), place({}))
})

test('the outage grace period is a duration', async (t) => {
  const grace = (written: string) => loadConfig({ KEY_CACHE_OUTAGE_GRACE: written })
  t.equal(loadConfig({}).keyCacheOutageGraceMs, 900_000)
  t.equal(grace('0').keyCacheOutageGraceMs, 0)
  t.equal(grace('2h30m').keyCacheOutageGraceMs, 9_000_000)
  t.equal(grace('24h').keyCacheOutageGraceMs, 86_400_000)
  for (const written of ['15', '-1s', '25h', 'long']) {
    t.throws(() => grace(written), { message: /KEY_CACHE_OUTAGE_GRACE: must be .* at most 24h/ })
  }
})

test('settings that require each other are reported', async (t) => {
  t.match(problemsOf({ OIDC_ISSUER_URL: 'https://issuer' }), [/^OIDC_CLIENT_ID: has to be set/])
  t.match(problemsOf({ OIDC_CLIENT_ID: 'tollgate' }), [/^OIDC_CLIENT_ID: .* OIDC_ISSUER_URL/])
  const none = { OIDC_ISSUER_URL: 'https://issuer', OIDC_CLIENT_ID: ' , ' }
  t.match(problemsOf(none), [/^OIDC_CLIENT_ID: .*one or more/])
  const reviews = { KUBERNETES_TOKEN_REVIEW: 'true' }
  t.match(problemsOf(reviews), [/^KUBERNETES_TOKEN_REVIEW: needs KUBECONFIG/])
  t.strictSame(problemsOf({ ...reviews, KUBERNETES_SERVICE_HOST: '10.0.0.1' }), [])
})

test('settings of the original service keep their names', async (t) => {
  const instanceOf = (env: Record<string, string>) => loadConfig(env).instanceName
  t.equal(instanceOf({}), 'maas-default-gateway')
  t.equal(instanceOf({ GATEWAY_NAME: 'gate' }), 'gate')
  t.equal(instanceOf({ GATEWAY_NAME: 'gate', INSTANCE_NAME: 'own' }), 'own')
  t.equal(loadConfig({ ACCESS_CHECK_TIMEOUT_SECONDS: '3' }).accessCheckTimeoutMs, 3_000)
  t.match(problemsOf({ ACCESS_CHECK_TIMEOUT_SECONDS: '0' }), [/^ACCESS_CHECK_TIMEOUT_SECONDS: /])
})

test('where resources come from the cluster, it reviews tokens unless that is off', async (t) => {
  const reviews = (env: Record<string, string>) => loadConfig(env).kubernetesTokenReview
  const cluster = { RESOURCES: 'kubernetes', KUBECONFIG: '/config' }
  t.equal(reviews({}), false)
  t.equal(reviews(cluster), true)
  t.equal(reviews({ ...cluster, KUBERNETES_TOKEN_REVIEW: 'false' }), false)
  t.strictSame([...loadConfig(cluster).adminGroups], [])
})

test('with roles of a cluster, groups administer only if they are set', async (t) => {
  const groupsOf = (env: Record<string, string>) => [...loadConfig(env).adminGroups]
  const reviews = { KUBERNETES_TOKEN_REVIEW: 'true', KUBECONFIG: '/config' }
  t.strictSame(groupsOf({}), ['tollgate-admins'])
  t.strictSame(groupsOf(reviews), [])
  t.strictSame(groupsOf({ ...reviews, ADMIN_GROUPS: 'ops' }), ['ops'])
})

test('an issuer must use https or be on this machine', async (t) => {
  const read = (url: string) => problemsOf({ OIDC_ISSUER_URL: url, OIDC_CLIENT_ID: 'tollgate' })
  for (const url of [
    'https://a/realms/b',
    'http://localhost:1',
    'http://127.0.0.1',
    'http://[::1]:1/a',
  ])
    t.strictSame(read(url), [], url)
  for (const url of [
    'http://a',
    'http://127.0.0.1.example',
    'https://a?b',
    'https://a#b',
    'a',
    'file:///a',
  ])
    t.match(read(url), [/^OIDC_ISSUER_URL: must be/], url)
})

test('a removed setting that is still set is reported with what replaces it', async (t) => {
  for (const WORKERS of ['1', '4', 'abc'])
    t.match(problemsOf({ WORKERS }), [/^WORKERS: was removed; .*REDIS_URL/])
  t.match(problemsOf({ WORKERS_FILE: '/workers' }), [/^WORKERS: was removed/])
  t.strictSame(problemsOf({ WORKERS: '' }), [])
  t.match(problemsOf({ METER_MESSAGES: 'true' }), [/^METER_MESSAGES: was removed; .*METER_PATHS/])
  for (const name of Object.keys(removedSettings)) {
    t.match(problemsOf({ [name]: '1' }), [new RegExp(`^${name}: was removed; `)])
    t.notOk(
      Object.values(settings).some((each) => each.name === name),
      name,
    )
  }
})

test('one setting says what was said by two', async (t) => {
  const read = (env: Record<string, string>) => loadConfig(env)
  t.match(read({ API_RATE_LIMIT: '5/1m' }).apiAddressRateLimit, { limit: 10, windowMs: 60_000 })
  t.equal(read({ API_RATE_LIMIT: 'off' }).apiAddressRateLimit, undefined)
  const timeout = (bytes: number) => read({ BODY_LIMIT: `${bytes}` }).bodyTimeoutMs
  t.strictSame([2 ** 16, 2 ** 25, 2 ** 25 + 1, 2 ** 30].map(timeout), [
    60_000,
    60_000,
    120_000,
    32 * 60_000,
  ])
  t.strictSame(read({}).lease, { namespace: undefined, name: 'tollgate-controller' })
  t.strictSame(read({ LEASE_NAME: 'a/b.c' }).lease, { namespace: 'a', name: 'b.c' })
  for (const LEASE_NAME of ['a/', '/b', 'a/b/c', 'A'])
    t.match(problemsOf({ LEASE_NAME }), [/^LEASE_NAME: must be/], LEASE_NAME)
})

test('Envoy reads bodies of 8 MiB with any limit', async (t) => {
  const limitOf = (bytes: number) => loadConfig({ BODY_LIMIT: `${bytes}` }).bodyLimit
  const eight = 2 ** 23
  t.strictSame([2 ** 16, eight, eight + 1].map(limitOf), [eight, eight, eight + 1])
})

test('the mark on requests to models is the same for one public URL', async (t) => {
  const markOf = (env: Record<string, string>) => loadConfig(env).hopMark
  const url = 'https://models.example'
  t.equal(markOf({ GATEWAY_URL: url }), markOf({ GATEWAY_URL: `${url}/`, API_ADDRESS: ':1' }))
  t.not(markOf({ GATEWAY_URL: url }), markOf({}))
  t.notMatch(markOf({ GATEWAY_URL: url }), /models/, 'model servers do not learn the URL')
})

test('the socket of the admin page has a path that the system accepts', async (t) => {
  const check = (env: Record<string, string>) => checkSockets(loadConfig(env))
  t.strictSame(check({ DATA_DIR: '/var/lib/tollgate' }), [])
  const deep = `/${'x'.repeat(100)}`
  t.match(check({ DATA_DIR: deep }), [/^ENVOY_ADMIN_ADDRESS: .* has 118 bytes.*DATA_DIR/])
  t.strictSame(check({ DATA_DIR: deep, ENVOY_ADMIN_ADDRESS: 'unix:/run/a.sock' }), [])
})

test('a sign-in by a code is for the sample on this machine only', async (t) => {
  const SAMPLE_SIGN_IN_CODE = 'a-code'
  const sample = {
    SAMPLE_SIGN_IN_CODE,
    RESOURCES: `file:${sampleResourceFolder}`,
    TOKEN_AUTH_FILE: sampleTokensFile,
    DATA_DIR: '/tmp/data',
  }
  t.equal(loadConfig(sample).sampleSignInCode, 'a-code')
  t.ok(loadConfig({ ...sample, RESOURCES: 'file:/tmp/data/sample-resources' }))
  for (const other of [
    { TOKEN_AUTH_FILE: '/etc/tokens.csv' },
    { TOKEN_AUTH_FILE: '' },
    { RESOURCES: 'file:/etc/resources' },
    { RESOURCES: 'kubernetes' },
    { GATEWAY_ADDRESS: '0.0.0.0:8000' },
    { GATEWAY_ADDRESS: '192.0.2.1:8000' },
    { API_ADDRESS: ':8080' },
  ]) {
    t.match(problemsOf({ ...sample, ...other }), [/^SAMPLE_SIGN_IN_CODE: is only for the sample/])
  }
})

test('providers have display names', async (t) => {
  const names = (written: string) => loadConfig({ OIDC_DISPLAY_NAMES: written }).oidcDisplayNames
  t.strictSame(
    [...(names('https://a.example/x=y=Our staff, http://127.0.0.1:1 = Test') ?? [])],
    [
      ['https://a.example/x=y', 'Our staff'],
      ['http://127.0.0.1:1', 'Test'],
    ],
  )
  for (const wrong of ['Staff', 'https://a.example', 'https://a.example=', 'a.example=Staff']) {
    t.match(problemsOf({ OIDC_DISPLAY_NAMES: wrong }), [/^OIDC_DISPLAY_NAMES: must be/], wrong)
  }
})

test('a variable that resembles a setting is found, and no other one', async (t) => {
  const others = ['PATH', 'HOME', 'TOLLGATE_URL', 'TOLLGATE_TOKEN', 'ENVOY_PATH', 'NODE_OPTIONS']
  const names = ['GATEWAY_ADDRESS', 'DATABASE_URL_FILE', 'OTEL_EXPORTER_OTLP_TIMEOUT', ...others]
  const env = Object.fromEntries(names.map((name) => [name, 'x']))
  t.strictSame(misspeltSettings(env), [])
  t.strictSame(misspeltSettings({ ...env, GATEWAY_ADRESS: 'x', METER_PATH: 'chat' }), [
    { name: 'GATEWAY_ADRESS', meant: 'GATEWAY_ADDRESS' },
    { name: 'METER_PATH', meant: 'METER_PATHS' },
  ])
  t.strictSame(misspeltSettings({ REDISURL: '1', loglevel: '1', 'data-dir': '1', USER_URL: '1' }), [
    { name: 'REDISURL', meant: 'REDIS_URL' },
    { name: 'loglevel', meant: 'LOG_LEVEL' },
    { name: 'data-dir', meant: 'DATA_DIR' },
  ])
})

import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'tap'
import { ConfigError, loadConfig } from '../src/config.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

test('without settings the defaults hold', async (t) => {
  t.match(loadConfig({}), {
    gatewayAddress: { host: '127.0.0.1', port: 8000 },
    grpcAddresses: [{ host: '127.0.0.1', port: 8082 }],
    gatewayUrl: 'http://127.0.0.1:8000',
    databaseUrl: undefined,
    resourceFolder: resolve('examples/resources'),
    maxExpirationDays: 90,
    keyMarker: 'tg',
    acceptedMarkers: new Set(['tg', 'oai']),
  })
})

test('every bad setting is named at once', async (t) => {
  const bad = {
    GATEWAY_ADDRESS: 'nowhere',
    API_ADDRESS: '127.0.0.1:65536',
    GRPC_ADDRESS: '127.0.0.1:1,unix:relative',
    GATEWAY_URL: 'ftp://host',
    DATABASE_URL: 'mysql://host/db',
    REDIS_URL: 'redis+cluster://',
    RESOURCES: 'folder',
    TOKEN_AUTH_FILE: '/nowhere/tokens.csv',
    API_KEY_MAX_EXPIRATION_DAYS: '0',
    API_KEY_MARKER: 'T-G',
    ACCESS_CHECK_TIMEOUT_SECONDS: '1.5',
    ON_COUNTER_LOSS: 'maybe',
    LOG_LEVEL: 'loud',
    OIDC_ISSUER_URL: 'https://issuer',
  }
  const named = problemsOf(bad).map((problem) => problem.slice(0, problem.indexOf(':')))
  t.strictSame([...new Set(named)].sort(), Object.keys(bad).sort())
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

test('a secret may come by file', async (t) => {
  const file = join(temporaryFolder(t), 'url')
  writeFileSync(file, 'postgres://user:secret@host/db\n')
  t.equal(loadConfig({ DATABASE_URL_FILE: file }).databaseUrl, 'postgres://user:secret@host/db')
  t.match(problemsOf({ DATABASE_URL_FILE: '/nowhere' }), [/^DATABASE_URL_FILE: can not read/])
  const both = { DATABASE_URL: 'postgres://host/db', DATABASE_URL_FILE: file }
  t.match(problemsOf(both), [/not both/])
})

import { test } from 'tap'
import * as form from '../../src/settings/readers.ts'

/** What the reader returns for each of these texts, or that it refuses it. */
function reads<T>(reader: form.Reader<T>, texts: readonly string[]): (T | 'refused')[] {
  return texts.map((text) => {
    const value = reader.read(text)
    return value === form.invalid ? 'refused' : value
  })
}

test('numbers must be whole and in their range', async (t) => {
  const texts = ['0', '1', '9', '10', '1.5', '-1', '1e0', ' 1', '']
  const refused = 'refused'
  t.strictSame(reads(form.integer(1, 9), texts), [
    ...[refused, 1, 9],
    ...[refused, refused, refused, refused, refused, refused],
  ])
})

test('durations are read as milliseconds and must be in their range', async (t) => {
  const texts = ['100ms', '99ms', '1s', '1m', '61s', '1', 'soon']
  t.strictSame(reads(form.duration('100ms', '1m'), texts), [
    ...[100, 'refused', 1_000, 60_000],
    ...['refused', 'refused', 'refused'],
  ])
  t.strictSame(reads(form.duration('0', '1m'), ['0', '0ms']), [0, 0])
})

test('a rate is a number per duration', async (t) => {
  const texts = ['600/1m', '1/1s', '5/1h', '0/1m', '5', '5/', '5/2h', '5/1ms', '1.5/1m', '-1/1m']
  t.strictSame(reads(form.rate, texts), [
    { limit: 600, windowMs: 60_000 },
    { limit: 1, windowMs: 1_000 },
    { limit: 5, windowMs: 3_600_000 },
    ...Array.from({ length: 7 }, () => 'refused'),
  ])
})

test('an object of the cluster is written as namespace/name', async (t) => {
  t.strictSame(reads(form.namespacedName, ['a/b', 'a-1/b.c-d', 'a', 'a/', '/b', 'a/b/c', 'A/b']), [
    ...['a/b', 'a-1/b.c-d'],
    ...Array.from({ length: 5 }, () => 'refused'),
  ])
  t.strictSame(reads(form.domainName, ['cluster.local', 'c', 'c.', '.c', 'a b', 'C', '']), [
    ...['cluster.local', 'c'],
    ...Array.from({ length: 5 }, () => 'refused'),
  ])
})

test('a switch may be off', async (t) => {
  const address = { host: '127.0.0.1', port: 1 }
  t.strictSame(reads(form.orOff(form.socketAddress), ['off', '127.0.0.1:1', 'none']), [
    undefined,
    address,
    'refused',
  ])
  t.strictSame(reads(form.flag, ['true', 'false', 'yes']), [true, false, 'refused'])
  t.strictSame(reads(form.oneOf('a', 'b'), ['a', 'A']), ['a', 'refused'])
})

test('white space and empty items of lists are removed', async (t) => {
  t.strictSame(reads(form.names, [' a , ,b', ',']), [new Set(['a', 'b']), new Set()])
  t.strictSame(reads(form.markers, ['tg,oai', 'tg,T']), [new Set(['tg', 'oai']), 'refused'])
  t.strictSame(reads(form.addresses, [':1,unix:/a', ':1,b', ',']), [
    [{ host: '0.0.0.0', port: 1 }, { path: '/a' }],
    'refused',
    'refused',
  ])
})

test('a URL has its slashes, and a database a known sslmode', async (t) => {
  const accepted = [
    'postgres://h/d',
    'POSTGRESQL://h/d',
    'postgres:///d?host=/run/postgresql',
    'postgres://h/d?sslmode=verify-full&application_name=x',
    'postgres://h/d?sslrootcert=/ca&sslmode=verify-ca',
    'postgres://h/d?host=/run/postgresql&target_session_attrs=read-write',
  ]
  const refused = [
    'postgres:h',
    'postgres://h:99999/d',
    'postgres://h1,h2/d',
    'postgres://h1:1,h2:2/d',
    'postgres://h1%2Ch2/d',
    'postgres:///d?host=h1,h2',
    'postgres:///d?host=h1&host=h2',
    'http://h',
    'postgres://h/d?sslmode=bogus',
    'postgres://h/d?sslmode=',
    'postgres://h/d?sslmode=allow',
    'postgres://h/d?sslmode=disable&sslmode=no-verify',
    'postgres://h/d?sslmode=verify-ca',
  ]
  t.strictSame(reads(form.postgresUrl, accepted), accepted)
  t.strictSame(new Set(reads(form.postgresUrl, refused)), new Set(['refused']))
  t.ok(form.postgresUrl.secret && form.baseUrl.secret)
  const bases = ['https://h/a', 'http:h', 'https://h?a', 'https://h/#a', 'https://u:p@h']
  t.strictSame(new Set(reads(form.baseUrl, bases.slice(1))), new Set(['refused']))
  t.equal(form.baseUrl.read('https://h/a'), 'https://h/a')
  t.strictSame(reads(form.meters, ['chat,', ',']), [['chat'], 'refused'])
})

test('a value that may contain a password is never shown', async (t) => {
  t.ok(form.redisUrl.secret)
  t.ok(form.url('postgres:').secret)
})

test('origins are written as browsers send them', async (t) => {
  t.strictSame(form.origins.read('https://a.example, http://localhost:3000'), [
    'https://a.example',
    'http://localhost:3000',
  ])
  t.strictSame(form.origins.read('*'), ['*'])
  for (const origin of [
    'app://obsidian.md',
    'tauri://localhost',
    'capacitor://localhost',
    'chrome-extension://abcdefghijklmnopabcdefghijklmnop',
    'moz-extension://3c1d0e0c-93d7-4c1a-9f2b-0d2f3f7c1a11',
    'vscode-webview://1abc2def',
    'app.vendor+x://localhost:3000',
  ]) {
    t.strictSame(form.origins.read(origin), [origin])
  }
  for (const written of [
    'app://',
    'app:/x',
    'app:x',
    'app://x/',
    'app://x/y',
    'app://x?y',
    'app://x#y',
    'app://user@x',
    'app://*',
    'app://a b',
    'App://x',
    'app://x:y',
    'file://',
    'file://x',
    'null',
    'data:text/html,x',
    'blob:https://app.example/x',
  ]) {
    t.equal(form.origins.read(written), form.invalid, written)
  }
  for (const written of [
    'a.example',
    'https://a.example/',
    'https://A.example',
    'https://*.example',
    'null',
    'file:///',
  ]) {
    t.equal(form.origins.read(written), form.invalid, written)
  }
})

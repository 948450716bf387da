import type { ServerResponse } from 'node:http'
import { mock } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createDocumentReader } from '../../../src/identity/oidc/documents.ts'
import { createKeySource, type KeySource } from '../../../src/identity/oidc/key-source.ts'
import { type OidcIssuer, startOidcIssuer } from '../../support/oidc-issuer.ts'
import { poll } from '../../support/poll.ts'

interface World {
  readonly issuer: OidcIssuer
  readonly keys: KeySource
  /** The messages of the log: each problem, and `back`. */
  readonly told: string[]
  /**
   * Lets time pass for the cool-down and the grace period. Periodic reading uses the real clock.
   */
  pass(milliseconds: number): void
  /** `found`, `unknown`, or the code of the failure. */
  ask(kid: string): Promise<string>
}

const graceMs = 3_600_000

async function createWorld(
  t: Test,
  { issuer: given, timeoutMs = 5_000 }: { issuer?: OidcIssuer; timeoutMs?: number } = {},
): Promise<World> {
  const issuer = given ?? (await startOidcIssuer(t))
  const told: string[] = []
  let passed = 0
  const keys = createKeySource({
    issuer: issuer.url,
    readDocument: createDocumentReader({ timeoutMs }),
    graceMs,
    onUnavailable: (problem) => told.push(problem ?? 'back'),
    monotonic: () => passed,
    // The periodic timer uses the real clock; no test lasts for its ten minutes.
  })
  t.teardown(() => keys.close())
  return {
    issuer,
    keys,
    told,
    pass(milliseconds) {
      passed += milliseconds
    },
    ask: (kid) =>
      keys.find({ alg: 'ES256', kid }).then(
        (found) => (found === undefined ? 'unknown' : 'found'),
        (error) => error.code,
      ),
  }
}

test('keys are read at the start and then kept', async (t) => {
  const { issuer, ask } = await createWorld(t)
  t.equal(await ask('first'), 'found')
  t.equal(await ask('first'), 'found')
  t.strictSame(issuer.asked, ['/.well-known/openid-configuration', '/keys'])
})

test('keys are read for an unknown key at most once in ten seconds', async (t) => {
  const { issuer, ask, pass } = await createWorld(t)
  await ask('first')
  await issuer.addKey('second')
  t.equal(await ask('second'), 'unknown', 'the keys have just been read')
  pass(10_000)
  t.strictSame(await Promise.all([ask('second'), ask('second'), ask('x')]), [
    'found',
    'found',
    'unknown',
  ])
  t.equal(issuer.asked.length, 4, 'one reading answers all that wait')
  for (let i = 0; i < 1_000; i++) t.equal(await ask(`invented-${i}`), 'unknown')
  t.equal(issuer.asked.length, 4)
})

test('without the provider its keys are valid for the grace period', async (t) => {
  const { issuer, keys, ask, pass, told } = await createWorld(t)
  await ask('first')
  await issuer.stop()
  pass(10_000)
  t.equal(await ask('second'), 'identity_unavailable', 'the provider may have a new key')
  t.ok(keys.isUnavailable)
  t.equal(await ask('first'), 'found')
  pass(graceMs)
  t.equal(await ask('first'), 'found')
  pass(1)
  t.equal(await ask('first'), 'identity_unavailable')
  await issuer.start()
  pass(10_000)
  t.equal(await ask('first'), 'found', 'recovers without a restart')
  t.notOk(keys.isUnavailable)
  t.match(told, [/ECONNREFUSED/, 'back'], 'one line for each change')
})

test('an unreachable provider is tried once in ten seconds', async (t) => {
  const { issuer, ask, pass } = await createWorld(t)
  await ask('first')
  issuer.answer = (_request, response) => response.writeHead(500).end()
  pass(10_000)
  for (let i = 0; i < 100; i++) t.equal(await ask(`invented-${i}`), 'identity_unavailable')
  t.equal(issuer.asked.length, 3)
})

test('a start without the provider succeeds later', async (t) => {
  const issuer = await startOidcIssuer(t)
  await issuer.stop()
  const { ask, pass } = await createWorld(t, { issuer })
  t.equal(await ask('first'), 'identity_unavailable')
  await issuer.start()
  t.equal(await ask('first'), 'identity_unavailable', 'tried a moment ago')
  pass(10_000)
  t.equal(await ask('first'), 'found')
})

test('keys are read again in the background', async (t) => {
  const issuer = await startOidcIssuer(t)
  const options = {
    issuer: issuer.url,
    readDocument: createDocumentReader(),
    graceMs,
    onUnavailable() {},
  }
  const keys = createKeySource({ ...options, everyMs: 1, cooldownMs: 20 })
  t.teardown(() => keys.close())
  const before = await poll(() => keys.generation, 'the first reading')
  issuer.published.clear()
  await issuer.addKey('second')
  // A reading in between may have seen no keys.
  await poll(() => keys.find({ alg: 'ES256', kid: 'second' }), 'the second reading')
  t.ok(keys.generation > before)
  t.equal(await keys.find({ alg: 'ES256', kid: 'first' }), undefined)
  const { generation } = keys
  const { length } = issuer.asked
  await poll(() => issuer.asked.length > length + 2, 'another reading')
  t.equal(keys.generation, generation, 'the same keys are not a change')
})

test('keys are at most ten minutes old, and a failing provider is tried again sooner', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  let passed = 0
  let fails = false
  const readAt: number[] = []
  const issuer = 'https://issuer'
  const keys = createKeySource({
    issuer,
    graceMs,
    onUnavailable() {},
    monotonic: () => passed,
    async readDocument(url) {
      if (url !== `${issuer}/keys`) return { issuer, jwks_uri: `${issuer}/keys` }
      readAt.push(passed)
      if (fails) throw new Error('unavailable')
      return { keys: [] }
    },
  })
  t.teardown(() => keys.close())
  const pass = async (milliseconds: number): Promise<void> => {
    await setImmediate()
    passed += milliseconds
    mock.timers.tick(milliseconds)
    await setImmediate()
  }
  await pass(599_999)
  t.strictSame(readAt, [0])
  await pass(1)
  t.strictSame(readAt, [0, 600_000])
  fails = true
  await pass(600_000)
  for (const _ of [1, 2, 3]) await pass(10_000)
  t.strictSame(readAt.slice(2), [1_200_000, 1_210_000, 1_220_000, 1_230_000])
  t.ok(keys.isUnavailable)
  fails = false
  await pass(10_000)
  t.notOk(keys.isUnavailable)
  await pass(599_999)
  t.equal(readAt.at(-1), 1_240_000)
  await pass(1)
  t.equal(readAt.at(-1), 1_840_000)
})

test('an invalid key set changes nothing', async (t) => {
  const { issuer, ask, pass, told } = await createWorld(t, { timeoutMs: 300 })
  await ask('first')
  const discovery = (document: unknown) => (response: ServerResponse) =>
    response.end(JSON.stringify(document))
  const jwks_uri = `${issuer.url}/keys`
  const cases: readonly (readonly [string, (response: ServerResponse) => unknown, RegExp])[] = [
    ['HTML', (response) => response.end('<html>'), /is not a JSON object/],
    ['a list', (response) => response.end('[]'), /is not a JSON object/],
    ['an error', (response) => response.writeHead(500).end('{}'), /answered 500/],
    [
      'a redirect',
      (response) => response.writeHead(302, { location: jwks_uri }).end(),
      /answered 302/,
    ],
    ['5 MB', (response) => response.end(`{"a":"${'x'.repeat(5_000_000)}"}`), /larger than 1 MiB/],
    ['silence', () => {}, /abort|timeout/i],
    ['half of an answer', (response) => response.writeHead(200).write('{'), /abort|timeout/i],
    ['another issuer', discovery({ issuer: `${issuer.url}/`, jwks_uri }), /another issuer/],
    ['no place', discovery({ issuer: issuer.url }), /no jwks_uri/],
    ['plain http', discovery({ issuer: issuer.url, jwks_uri: 'http://192.0.2.1/' }), /no jwks_uri/],
    ['a file', discovery({ issuer: issuer.url, jwks_uri: 'file:///etc/passwd' }), /no jwks_uri/],
    ['no set', discovery({ issuer: issuer.url, jwks_uri: `${issuer.url}/x` }), /malformed/],
  ]
  for (const [title, answer, problem] of cases) {
    issuer.answer = (_request, response) => void answer(response)
    pass(10_000)
    t.equal(await ask('second'), 'identity_unavailable', title)
    t.match(told.at(-1), problem, title)
    t.equal(await ask('first'), 'found', title)
    issuer.answer = undefined
    pass(10_000)
    t.equal(await ask('second'), 'unknown', title)
  }
})

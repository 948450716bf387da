import { base64url } from 'jose'
import { test } from 'tap'
import { ServiceError } from '../../src/formats/errors.ts'
import { createTokenVerifier } from '../../src/identity/identity-token.ts'
import type { TokenCaller } from '../../src/identity/rules/caller.ts'
import type { FindTokenCaller } from '../../src/identity/token-file.ts'

const caller = (user: string): TokenCaller => ({
  by: 'token',
  proof: { by: 'file' },
  user,
  groups: [],
})
const file: FindTokenCaller = (token) => (token.startsWith('listed') ? caller('file') : null)
const oidc = (issuer: string) =>
  issuer === 'https://ours'
    ? async (token: string) => {
        if (token.endsWith('.refused')) throw new ServiceError('credential_invalid')
        return caller('oidc')
      }
    : undefined
const cluster = async () => caller('cluster')

function jwt(claims: unknown, header: unknown = { alg: 'ES256' }, signature = 'c2ln'): string {
  const encode = (value: unknown) => base64url.encode(JSON.stringify(value))
  return `${encode(header)}.${encode(claims)}.${signature}`
}

test('the first method that applies is final', async (t) => {
  const verify = createTokenVerifier({ file, oidc, cluster })
  const userOf = async (token: string) => (await verify(token, 0))?.user
  const ours = jwt({ iss: 'https://ours' })
  t.equal(await userOf('listed'), 'file')
  t.equal(await userOf(ours), 'oidc')
  t.equal(
    await userOf(jwt({ iss: 'https://ours' }, { alg: 'none' }, '')),
    'oidc',
    'OIDC refuses it',
  )
  await t.rejects(
    userOf(jwt({ iss: 'https://ours' }, {}, 'refused')),
    { code: 'credential_invalid' },
    'no other method is tried',
  )
  for (const token of [
    'opaque',
    'a.b.c',
    '..',
    jwt({ iss: 'https://theirs' }),
    jwt({ iss: 'https://ours/' }),
    jwt({ iss: ['https://ours'] }),
    jwt({ iss: { toString: 'https://ours' } }),
    jwt({}),
    jwt(null),
    jwt('https://ours'),
    `${ours}.x`,
    `x.${ours}.x`,
  ]) {
    t.equal(await userOf(token), 'cluster', token)
  }
})

test('without a method that applies, a token is refused', async (t) => {
  const verify = createTokenVerifier({ file, oidc, cluster: undefined })
  for (const token of ['opaque', jwt({ iss: 'https://theirs' })]) t.equal(verify(token, 0), null)
})

test('the result of each verification is reported', async (t) => {
  const told: string[] = []
  const onProved = (by: string, result: string) => void told.push(`${by} ${result}`)
  const failing = async (token: string) => {
    if (token.endsWith('unavailable')) throw new ServiceError('identity_unavailable')
    if (token.endsWith('broken')) throw new Error('a fault')
    return token.endsWith('known') ? caller('cluster') : null
  }
  const verify = createTokenVerifier({ file, oidc, cluster: failing, onProved })
  const issued = { iss: 'https://ours' }
  for (const token of ['listed', jwt(issued), 'known', 'unknown-one']) await verify(token, 0)
  for (const token of [jwt(issued, {}, 'refused'), 'unavailable', 'broken']) {
    await t.rejects(async () => await verify(token, 0))
  }
  createTokenVerifier({ file, oidc, cluster: undefined, onProved })('opaque', 0)
  t.strictSame(told, [
    'file ok',
    'oidc ok',
    'cluster ok',
    'cluster refused',
    'oidc refused',
    'cluster unavailable',
    'cluster failed',
    'none refused',
  ])
})

test('a huge payload is refused quickly', async (t) => {
  const verify = createTokenVerifier({ file, oidc, cluster: undefined })
  const startedAt = process.cpuUsage()
  for (const token of [
    jwt({ iss: 'x'.repeat(12_000) }).slice(0, 16_384),
    `${'.'.repeat(16_384)}`,
    `a.${base64url.encode('['.repeat(12_000))}.c`,
  ]) {
    for (let i = 0; i < 100; i++) t.equal(verify(token, 0), null)
  }
  t.ok(process.cpuUsage(startedAt).user < 2_000_000)
})

import { test } from 'tap'
import { type ClaimRules, readClaims } from '../../../src/identity/oidc/claims.ts'

const usual: ClaimRules = {
  username: undefined,
  groups: 'groups',
  usernamePrefix: '',
  groupsPrefix: '',
  required: [],
}

function userOf(claims: object, rules: Partial<ClaimRules> = {}): string | undefined {
  const found = readClaims({ ...claims }, { ...usual, ...rules })
  return typeof found === 'string' ? undefined : found.user
}

function groupsOf(groups: unknown, rules: Partial<ClaimRules> = {}) {
  const found = readClaims({ sub: 'ada', groups }, { ...usual, ...rules })
  return typeof found === 'string' ? undefined : found.groups
}

test('the user is preferred_username, or else sub', async (t) => {
  t.equal(userOf({ preferred_username: 'ada', sub: '1' }), 'ada')
  t.equal(userOf({ sub: '1' }), '1')
  t.equal(userOf({ preferred_username: 'ada', sub: '1' }, { username: 'sub' }), '1')
  t.equal(userOf({ a: { b: 'ada' } }, { username: 'a.b' }), 'ada')
  t.equal(userOf({ 'a.b': 'whole', a: { b: 'path' } }, { username: 'a.b' }), 'whole')
  t.equal(userOf({ sub: 'ada' }, { usernamePrefix: 'oidc:' }), 'oidc:ada')
  for (const name of ['Ada Lovelace', 'ada@example.com', 'Ådå', '阿达', '👩‍💻', ' ', 'a\'b,c"d'])
    t.equal(userOf({ sub: name }), name, 'byte for byte')
})

test('claims without a usable user name are refused', async (t) => {
  for (const name of [
    null,
    '',
    7,
    true,
    ['ada'],
    { a: 'ada' },
    'a\u0000b',
    'a\nb',
    '\ud800',
    'a\u0085',
    'x'.repeat(1_025),
  ]) {
    t.equal(userOf({ sub: name }), undefined, JSON.stringify(name))
    t.equal(userOf({ preferred_username: name, sub: 'ada' }), undefined, 'sub is not used instead')
  }
  t.equal(userOf({}), undefined)
  t.equal(userOf({ a: ['ada'] }, { username: 'a.length' }), undefined)
  t.equal(userOf({}, { username: 'constructor.name' }), undefined, 'own properties only')
  t.equal(userOf(JSON.parse('{"__proto__":{"sub":"root"}}')), undefined)
  t.equal(userOf({ sub: 'x'.repeat(1_024) })?.length, 1_024)
})

test('an email address that is not verified is refused', async (t) => {
  const email = 'ada@example.com'
  const rules = { username: 'email' }
  t.equal(userOf({ email }, rules), email)
  t.equal(userOf({ email, email_verified: true }, rules), email)
  for (const email_verified of [false, 'true', 1]) {
    t.equal(userOf({ email, email_verified }, rules), undefined, String(email_verified))
  }
  t.equal(userOf({ sub: 'ada', email_verified: false }), 'ada', 'another claim is the user name')
})

test('groups are a list of strings, taken as they are', async (t) => {
  t.strictSame(groupsOf(undefined), [])
  t.strictSame(groupsOf([]), [])
  t.strictSame(groupsOf(['a,b', '"c"', ' d ', '["e"]']), ['a,b', '"c"', ' d ', '["e"]'])
  t.strictSame(groupsOf(['a'], { groupsPrefix: 'oidc:' }), ['oidc:a'])
  t.strictSame(groupsOf('team-a'), ['team-a'], 'one text is one group')
  for (const none of [null, '', ' ', ['', '\t']]) t.strictSame(groupsOf(none), [])
  for (const groups of [7, { a: 1 }, ['a', ['b']], ['a', 7], ['a', null], ['a\u0000'], 'a\u0000'])
    t.equal(groupsOf(groups), undefined, JSON.stringify(groups))
  const nested = readClaims(
    { sub: 'a', realm_access: { roles: ['x'] } },
    { ...usual, groups: 'realm_access.roles' },
  )
  t.match(nested, { groups: ['x'] })
  const named = { ...usual, groups: 'https://example.com/groups' }
  t.match(readClaims({ sub: 'a', 'https://example.com/groups': ['x'] }, named), { groups: ['x'] })
})

test('names of the cluster itself are refused or removed', async (t) => {
  t.equal(userOf({ sub: 'system:admin' }), undefined)
  t.equal(userOf({ sub: 'admin' }, { usernamePrefix: 'system:' }), undefined)
  t.equal(userOf({ sub: 'system:admin' }, { usernamePrefix: 'oidc:' }), 'oidc:system:admin')
  t.strictSame(groupsOf(['system:masters', 'a']), ['a'])
  t.strictSame(groupsOf(['masters'], { groupsPrefix: 'system:' }), [])
})

test('a required claim must have exactly the required value', async (t) => {
  const required = [{ claim: 'hd', value: 'example.com' }]
  t.equal(userOf({ sub: 'ada', hd: 'example.com' }, { required }), 'ada')
  for (const hd of [undefined, null, '', 'Example.com', ['example.com'], 7, true]) {
    t.equal(userOf({ sub: 'ada', hd }, { required }), undefined, String(hd))
  }
  const both = [...required, { claim: 'org.unit', value: '' }]
  t.equal(userOf({ sub: 'ada', hd: 'example.com' }, { required: both }), undefined)
  t.equal(userOf({ sub: 'ada', hd: 'example.com', org: { unit: '' } }, { required: both }), 'ada')
})

test('without a claim for groups a caller has none', async (t) => {
  t.strictSame(groupsOf(['team-a'], { groups: undefined }), [])
  t.strictSame(groupsOf('team-a', { groups: undefined }), [])
})

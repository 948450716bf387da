import { test } from 'tap'
import { createIsAdmin } from '../../../src/admin/http/administrators.ts'
import type { Person, Proof } from '../../../src/identity/rules/caller.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

test('a key of an administrator is not one', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('admin')
  const { id } = await api.createKey('bob')
  const filtered = { filters: { username: 'bob' } }
  const ask = (route: string, as: string, body?: object) =>
    api.ask(route, body === undefined ? { as } : { as, body })

  refused(t, await ask(`GET /v1/api-keys/${id}`, key), 404, 'not_found')
  refused(t, await ask(`DELETE /v1/api-keys/${id}`, key), 404, 'not_found')
  refused(t, await ask('POST /v1/api-keys/search', key, filtered), 403, 'admin_required')
  const others = { username: 'bob' }
  refused(t, await ask('POST /v1/api-keys/bulk-revoke', key, others), 403, 'admin_required')
  const { data } = (await ask('POST /v1/api-keys/search', key, {})).json()
  t.strictSame(
    data.map(({ username }: { username: string }) => username),
    ['admin'],
    'a search without a user finds only its own',
  )
  t.equal((await ask(`GET /v1/api-keys/${id}`, 'admin')).statusCode, 200, 'its token is one')
  t.equal((await ask(`DELETE /v1/api-keys/${id}`, 'admin')).statusCode, 200)
})

test('the cluster is asked only about names that are its own', async (t) => {
  const asked: Person[] = []
  const isAdmin = createIsAdmin(new Set(), (person) => asked.push(person) > 0)
  const person = { user: 'ops', groups: ['team'] }
  const oidc = { by: 'oidc', issuer: 'https://issuer.example' } as const
  const proofs: readonly (readonly [Proof, Person | undefined])[] = [
    [{ by: 'cluster' }, person],
    [{ by: 'file' }, undefined],
    [{ ...oidc, prefixesUsers: false, prefixesGroups: false }, undefined],
    [{ ...oidc, prefixesUsers: false, prefixesGroups: true }, undefined],
    [{ ...oidc, prefixesUsers: true, prefixesGroups: true }, person],
    [
      { ...oidc, prefixesUsers: true, prefixesGroups: false },
      { user: 'ops', groups: [] },
    ],
  ]
  for (const [proof, expected] of proofs) {
    asked.length = 0
    const title = JSON.stringify(proof)
    t.equal(isAdmin({ by: 'token', proof, ...person }), expected !== undefined, title)
    t.strictSame(asked, expected === undefined ? [] : [expected], title)
  }
  asked.length = 0
  t.equal(isAdmin({ by: 'key', keyId: '1', subscription: 'basic', ...person }), false)
  t.strictSame(asked, [])
})

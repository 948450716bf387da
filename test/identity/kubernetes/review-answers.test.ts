import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'tap'
import { ownToken, startReviewServer } from '../../support/review-server.ts'

/**
 * The requests to the fake review APIs and its answers, a file each, to be compared with those of a
 * real API server: POST `request` to `path`.
 */
const folder = new URL('../../support/kubernetes/review-answers/', import.meta.url)

test('the fake API server answers as its files say', async (t) => {
  const server = await startReviewServer(t)
  const groups = ['system:serviceaccounts', 'system:serviceaccounts:team', 'system:authenticated']
  server.tokens.set('ada-token', { username: 'system:serviceaccount:team:ada', groups })
  server.tokens.set('vault-token', { username: 'eve', audiences: ['vault'] })
  server.admins.add('ops').add('admins')
  const files = readdirSync(folder)
  t.equal(files.length, 10)
  for (const file of files) {
    const { path, request, status, answer } = JSON.parse(
      readFileSync(new URL(file, folder), 'utf8'),
    )
    const answered = await fetch(server.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${ownToken}`, 'content-type': 'application/json' },
      body: JSON.stringify(request),
    })
    t.equal(answered.status, status, file)
    t.same(await answered.json(), answer, file)
  }
})

import { test } from 'tap'
import { readQuery } from '../../../src/admin/http/request-url.ts'
import { costRatio } from '../../support/cost.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

test('a long path is not read (404)', async (t) => {
  const api = await createKeyApi(t)
  const ask = (path: string) => api.ask(`GET ${path}`, { as: 'alice' })
  const longest = await ask(`/v1/model/${'%61'.repeat(512)}/subscriptions`)
  t.equal(longest.statusCode, 200, 'a name of 512 escapes')
  const over = await ask(`/v1/model/${'%25'.repeat(16_000)}/subscriptions`)
  refused(t, over, 404, 'not_found')
  t.match(over.json().error.message, /more than 2,048 characters/)
  const query = await ask(`/v1/subscriptions?${'%25'.repeat(16_000)}`)
  t.equal(query.statusCode, 200, 'the query does not count')
})

test('a query of thousands of parameters costs no more than text', async (t) => {
  t.strictSame({ ...readQuery('a=1&b=%20&a=2&c') }, { a: ['1', '2'], b: ' ', c: '' })
  const many = Array.from({ length: 12_000 }, (_, n) => n.toString(36)).join('&')
  const ratio = costRatio(
    () => readQuery('a'.repeat(many.length)),
    () => readQuery(many),
  )
  t.ok(ratio < 3, `${ratio.toFixed(1)} times`)
  t.equal(Object.keys(readQuery(many)).length, 100)
})

import { test } from 'tap'
import { renderOpenapi } from '../../../docs/write-openapi.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

/** Every documented route for administrators. */
const routes = Object.entries(JSON.parse(await renderOpenapi()).paths as Record<string, object>)
  .filter(([path]) => path.startsWith('/v1/admin/'))
  .flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )

/** What an administrator gets who sends nothing, where that is not enough. */
const incomplete: Readonly<Record<string, number>> = {
  'POST /v1/admin/increases': 400,
  'DELETE /v1/admin/increases/{increaseId}': 404,
}

test('only an identity token of an administrator opens them', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('admin')
  t.ok(routes.length > 1)
  for (const route of routes) {
    refused(t, await api.ask(route), 401, 'credential_invalid', route)
    for (const as of ['alice', key]) {
      const answer = await api.ask(route, { as })
      refused(t, answer, 403, 'admin_required', route)
      t.notMatch(answer.body, /llm|small|premium/)
    }
    const { statusCode } = await api.ask(route, { as: 'admin' })
    t.equal(statusCode, incomplete[route] ?? 200, route)
  }
})

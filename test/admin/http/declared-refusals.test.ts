/** What every operation of the API refuses in the same way, by the statuses that it declares. */
import type { Test } from 'tap'
import { test } from 'tap'
import { renderOpenapi } from '../../../docs/write-openapi.ts'
import { type Asked, createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { failing, refused } from '../../support/refusals.ts'

interface Operation {
  /** `GET /v1/me`, with an id of nothing in its path. */
  readonly route: string
  /** Whether it says that something in its path may not exist. */
  readonly hasId: boolean
  readonly takesBody: boolean
  readonly declares: (status: number) => boolean
}

async function readOperations(): Promise<readonly Operation[]> {
  const { paths } = JSON.parse(await renderOpenapi()) as {
    paths: Record<string, Record<string, { responses: object; requestBody?: object }>>
  }
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses, requestBody }]) => ({
      route: `${method.toUpperCase()} ${path.replace(/\{\w+\}/, 'ffffffff-ffff-4fff-bfff-ffffffffffff')}`,
      hasId: path.includes('{id}'),
      takesBody: requestBody !== undefined,
      declares: (status: number) => `${status}` in responses,
    })),
  )
}

const operations = await readOperations()

/** A valid body, if the caller and what is in the path are. */
const bodyFor = (route: string): object => (route.startsWith('PATCH') ? { name: 'other' } : {})

/** Claims that the operations that declare the status answer with it, and the others with another. */
async function each(
  t: Test,
  api: KeyApi,
  status: number,
  code: string,
  asked: Asked,
  applies: (operation: Operation) => boolean = () => true,
): Promise<void> {
  for (const operation of operations.filter(applies)) {
    const { route, takesBody, declares } = operation
    const answer = await api.ask(route, {
      ...(takesBody && asked.payload === undefined && { body: bodyFor(route) }),
      ...asked,
    })
    if (declares(status)) refused(t, answer, status, code, route)
    else t.not(answer.statusCode, status, route)
  }
}

test('nobody is served without a credential (401)', async (t) => {
  const api = await createKeyApi(t)
  const forged = { 'x-maas-username': 'alice', 'x-maas-group': '["team-a"]' }
  await each(t, api, 401, 'credential_invalid', {})
  await each(t, api, 401, 'credential_invalid', { as: 'mallory' })
  await each(t, api, 401, 'credential_invalid', { headers: forged })
  const broken = { payload: 'not even JSON' }
  await each(t, api, 401, 'credential_invalid', broken, ({ takesBody }) => takesBody)
})

test('a key is refused from another address (403)', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('alice', { allowedAddresses: ['192.0.2.0/24'] })
  // These revoke the key itself, from anywhere.
  const revokes = /POST .*revoke$/
  const applies = ({ route }: Operation) => !revokes.test(route)
  await each(t, api, 403, 'address_not_allowed', { as: key }, applies)
})

test('what is not there is not found (404)', async (t) => {
  const api = await createKeyApi(t)
  await each(t, api, 404, 'not_found', { as: 'alice' }, ({ hasId }) => hasId)
})

test('bodies above one mebibyte are refused (413)', async (t) => {
  const api = await createKeyApi(t)
  const payload = `{"x":"${'x'.repeat(2 ** 20)}"}`
  await each(t, api, 413, 'body_too_large', { as: 'admin', payload }, ({ takesBody }) => takesBody)
  for (const { route, takesBody, declares } of operations) t.equal(declares(413), takesBody, route)
})

test('a key cannot be checked: a fault (500), and an outage (503)', async (t) => {
  const { key } = await (await createKeyApi(t)).createKey('alice')
  for (const [how, status, code] of [
    ['fault', 500, 'internal'],
    ['outage', 503, 'store_unavailable'],
  ] as const) {
    const api = await createKeyApi(t, { around: failing(how, 'findByHashes') })
    await each(t, api, status, code, { as: key })
  }
})

import { gatewayTests } from '../support/gateway.ts'

const test = gatewayTests()

test('a client on the same machine has the same address everywhere', async (t, gateway) => {
  const reach = async (network: string, headers: Record<string, string> = {}) => {
    const caps: object = { allowedAddresses: [network] }
    const { key } = await gateway.mint(caps)
    const paths = ['/v1/me', '/maas-api/v1/subscriptions', '/llm/sim/v1/models']
    return Promise.all(
      paths.map(async (path) => (await gateway.ask(path, key, { headers })).status),
    )
  }
  t.strictSame(await reach('127.0.0.0/8'), [200, 200, 200])
  for (const name of ['x-tollgate-client', 'x-forwarded-for']) {
    t.strictSame(await reach('198.51.100.0/24', { [name]: '198.51.100.1' }), [403, 403, 403], name)
  }
})

for (const prefix of ['', '/maas-api']) {
  test(`manages keys at ${prefix}/v1/api-keys`, async (t, gateway) => {
    const user = gateway.newUser()
    const token = `token-${user}`
    const created = await gateway.ask(`${prefix}/v1/api-keys`, token, {
      method: 'POST',
      body: JSON.stringify({ name: 'mine', subscription: 'plenty' }),
    })
    t.equal(created.status, 201)
    const { key, id } = JSON.parse(created.text)
    t.equal((await gateway.chat(key)).status, 200)

    const path = `${prefix}/v1/api-keys/${id}`
    for (const credential of [token, key]) {
      const read = await gateway.ask(path, credential)
      t.equal(read.status, 200)
      t.match(JSON.parse(read.text), { id, username: user, status: 'active' })
    }
    t.equal(
      (await gateway.ask(path, `token-${gateway.newUser()}`)).status,
      404,
      'a key of another user',
    )
    t.equal((await gateway.ask(path, 'token-admin')).status, 200, 'an administrator')
    t.equal((await gateway.ask(path)).status, 401)
    const more = { method: 'POST', body: '{"name":"more"}' }
    t.equal(
      (await gateway.ask(`${prefix}/v1/api-keys`, key, more)).status,
      403,
      'a key cannot create keys',
    )

    t.equal((await gateway.ask(path, token, { method: 'DELETE' })).status, 200)
    t.equal((await gateway.ask(path, token, { method: 'DELETE' })).status, 404)
    t.equal((await gateway.chat(key)).status, 401)
  })

  test(`open paths need no credential below ${prefix}/`, async (t, gateway) => {
    const health = await gateway.ask(`${prefix}/health`)
    t.equal(health.status, 200)
    t.strictSame(JSON.parse(health.text), { status: 'healthy' })
    const document = await gateway.ask(`${prefix}/openapi.json`)
    t.equal(document.status, 200)
    t.ok(JSON.parse(document.text).paths['/v1/api-keys'])
    const page = await gateway.ask(`${prefix}/docs`, undefined, { redirect: 'follow' })
    t.equal(page.status, 200)
    t.match(page.headers.get('content-type'), 'text/html')
    for (const { headers } of [page, document]) {
      t.equal(headers.get('x-content-type-options'), 'nosniff')
      t.equal(headers.get('referrer-policy'), 'no-referrer')
    }
  })
}

test('limits bodies of the API to one megabyte', async (t, gateway) => {
  const token = `token-${gateway.newUser()}`
  const empty = JSON.stringify({ name: 'x', subscription: 'plenty', more: '' }).length
  for (const [bytes, status] of [
    [1_048_576, 201],
    [1_048_577, 413],
    [8_000_000, 413],
  ] as const) {
    const more = 'y'.repeat(bytes - empty)
    const body = JSON.stringify({ name: 'x', subscription: 'plenty', more })
    for (const prefix of ['', '/maas-api']) {
      const answer = await gateway.ask(`${prefix}/v1/api-keys`, token, { method: 'POST', body })
      t.equal(answer.status, status, `${bytes} bytes`)
      if (status === 413) t.equal(JSON.parse(answer.text).error.code, 'body_too_large')
    }
  }
})

test('a key survives a restart of the service', async (t, gateway) => {
  const user = gateway.newUser()
  const { key, id } = await gateway.mint({ user })
  await gateway.stopService()
  await gateway.startService()
  t.equal((await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`)).status, 200)
  t.equal((await gateway.chat(key)).status, 200)
})

test('every documented endpoint is served at the gateway', async (t, gateway) => {
  const { paths } = JSON.parse((await gateway.ask('/openapi.json')).text) as {
    paths: Readonly<Record<string, Readonly<Record<string, { security?: readonly object[] }>>>>
  }
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, { security }] of Object.entries(operations)) {
      const address = path.replaceAll(/\{\w+\}/g, 'x')
      const answer = await gateway.ask(address, undefined, { method: method.toUpperCase() })
      t.equal(answer.status, security?.length === 0 ? 200 : 401, `${method} ${address}`)
    }
  }
})

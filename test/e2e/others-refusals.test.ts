import t from 'tap'
import { everyProcessIsAsked } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const tokens = ['ann,ann,1,team', 'eve,eve,2,team', 'admin,admin,3,tollgate-admins']

t.test('each of two processes explains what the other has refused', { skip }, async (t) => {
  const { url, all, envoy } = await startReplicas(t, {
    count: 2,
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 1_000 })],
    tokens: tokens.map((line) => `token-${line}`),
  })
  const ask = async (origin: string, path: string, as: string, body?: object) => {
    const response = await fetch(`${origin}${path}`, {
      headers: { authorization: `Bearer ${as}`, 'content-type': 'application/json' },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
    const { status, headers } = response
    return {
      status,
      id: headers.get('x-request-id') ?? '',
      body: JSON.parse(await response.text()),
    }
  }
  const { body: minted } = await ask(url, '/v1/api-keys', 'token-ann', { name: 'laptop' })
  await everyProcessIsAsked(envoy)
  const refused: string[] = []
  for (let i = 0; i < 20; i += 1) {
    const chat = { model: `unknown-${i}`, messages: [] }
    const { status, id } = await ask(url, '/v1/chat/completions', minted.key, chat)
    t.equal(status, 403)
    refused.push(id)
  }
  const [one, two] = all.map(({ api }) => `http://${api}`) as [string, string]
  const list = async (origin: string) => {
    const { status, body } = await ask(origin, '/v1/admin/refusals', 'token-admin')
    t.equal(status, 200)
    return body
  }
  // Both have begun to listen.
  for (const each of [one, two]) await poll(async () => (await list(each)).complete, 'all answer')
  for (const each of [one, two]) {
    const { data } = await list(each)
    t.strictSame(
      new Set(data.map(({ requestId }: { requestId: string }) => requestId)),
      new Set(refused),
    )
    for (const requestId of refused) {
      const own = await ask(each, '/v1/explain', 'token-ann', { requestId })
      t.equal(own.status, 200)
      t.match(own.body, { allowed: false, refusal: { requestId, status: 403 } })
      t.equal((await ask(each, '/v1/explain', 'token-eve', { requestId })).status, 404)
    }
  }

  all[1]?.signal('SIGSTOP')
  t.teardown(() => all[1]?.signal('SIGCONT'))
  const { data, complete, silent } = await list(one)
  t.strictSame({ complete, silent }, { complete: false, silent: ['replica-2'] })
  const known = new Set(data.map(({ requestId }: { requestId: string }) => requestId))
  t.ok(known.size < refused.length, `${known.size} of ${refused.length} are known to this process`)
  const requestId = refused.find((each) => !known.has(each))
  const unknown = await ask(one, '/v1/explain', 'token-ann', { requestId })
  t.equal(unknown.status, 404)
  t.match(unknown.body.error.message, 'Not every process of the service has answered; ask again.')
})

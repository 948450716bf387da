import t from 'tap'
import { formatAddress } from '../../src/settings/config.ts'
import { createDatabase } from '../support/database.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { chatPath, startGateway } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { startLoad, tally } from '../support/steady-load.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

const skip = envoyPath() === undefined && 'no Envoy'
/** A well-formed key that does not exist. */
const invented = (n: number) => `sk-oai-invented${n}_0123456789abcdef`

t.test('known keys work without the database', { skip }, async (t) => {
  const url = await createDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const gateway = await startGateway(t, { env: { DATABASE_URL: proxy.through(url) } })
  const { ask, chat, mint, newUser } = gateway
  const readiness = async () => {
    const answer = await fetch(`http://${formatAddress(gateway.addresses.internal)}/readyz`)
    return (await answer.json()) as { degraded?: string[] }
  }

  for (const [how, unavailable] of [
    ['refuses', () => proxy.refuse()],
    ['hangs', () => proxy.swallow()],
  ] as const) {
    await t.test(`when it ${how}`, async (t) => {
      const user = newUser()
      const [known, other] = [await mint({ user }), await mint({ user })]
      const before = await chat(known.key)
      t.equal(before.status, 200)
      t.notOk(before.headers.has('x-tollgate-key-age'))
      const request = {
        url: gateway.url + chatPath,
        headers: { authorization: `Bearer ${known.key}`, 'content-type': 'application/json' },
        body: '{"model":"sim","messages":[]}',
      }
      const load = startLoad(50, () => request, 16)

      unavailable()
      await poll(
        async () => (await chat(known.key)).headers.get('x-tollgate-key-age')?.match(/^\d+$/),
        'responses are based on cached keys',
      )
      const forbidden = await chat(known.key, {}, {}, '/llm/nothing/v1/chat/completions')
      t.equal(forbidden.status, 403)
      t.match(forbidden.headers.get('x-tollgate-key-age'), /^\d+$/, 'also on errors')
      for (const [title, answer] of [
        ['a key that is not cached', await chat(other.key)],
        ['an unknown key', await chat(invented(1))],
      ] as const) {
        t.equal(answer.status, 503, title)
        t.match(answer.headers.get('retry-after'), /^\d+$/)
        t.notOk(answer.headers.has('x-tollgate-key-age'))
        t.match(JSON.parse(answer.text), { error: { code: 'store_unavailable' } })
      }
      t.equal((await chat(`${known.key}x`)).status, 401, 'a mistyped key needs no database')
      await t.rejects(mint({ user }), /503/, 'no key is created')
      const revoking = await ask(`/v1/api-keys/${other.id}`, `token-${user}`, { method: 'DELETE' })
      t.equal(revoking.status, 503, 'no key is revoked')
      t.match(await readiness(), { degraded: ['database'] })
      const state = await ask('/v1/admin/state', 'token-admin')
      t.match(JSON.parse(state.text), {
        degraded: ['database'],
        database: { available: false, grace_seconds: Number },
      })
      t.notOk(JSON.parse(state.text).replicas)

      proxy.heal()
      await poll(
        async () => (await chat(other.key)).status === 200,
        'the database is available again',
        30_000,
      )
      const healed = await chat(known.key)
      t.equal(healed.status, 200)
      t.notOk(healed.headers.has('x-tollgate-key-age'))
      t.equal((await chat(invented(2))).status, 401)
      const shots = await load.stop()
      const failed = shots.filter(({ status }) => status !== 200)
      for (const { status, text, sentAt, endedAt } of failed)
        t.comment(`${status} after ${Math.round(endedAt - sentAt)} ms: ${text}`)
      t.strictSame(Object.keys(tally(shots)), ['200'], 'no request failed')
      await poll(async () => {
        const { text } = await ask(`/v1/api-keys/${known.id}`, `token-${user}`)
        return JSON.parse(text).lastUsedAt
      }, 'the last use is stored')
    })
  }
})

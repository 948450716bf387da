import t from 'tap'
import { readStat } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { type Replica, startReplicas } from '../support/replicas.ts'

const skip = envoyPath() === undefined && 'no Envoy'

t.test('a process is killed', { skip }, async (t) => {
  const { url, all, envoy } = await startReplicas(t, {
    count: 2,
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 1e9 })],
    tokens: ['token-ann,ann,1,team'],
  })
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  const first = all[0] as Replica
  const figure = (name: string) => readStat(envoy, `cluster.api.${name}`)
  const send = async (path: string, method: string) => {
    const answer = await fetch(url + path, { method, headers })
    await answer.arrayBuffer()
    return answer.status
  }

  /** Sends these at once, and ends the first process while it has some of them; returns their statuses. */
  async function sendAndKill(path: string, method: string): Promise<readonly number[]> {
    first.signal('SIGSTOP')
    const sent = Array.from({ length: 12 }, () => send(path, method))
    const ended = new Set<number>()
    for (const [index, each] of sent.entries()) void each.then(() => ended.add(index))
    const isHeld = async () =>
      ended.size > 0 && ended.size + (await figure('upstream_rq_active')) === sent.length
    await poll(isHeld, 'the other process has answered its requests')
    t.ok(ended.size < sent.length, 'the stopped process has requests')
    await first.end('SIGKILL')
    const statuses = await Promise.all(sent)
    await first.start()
    await poll(async () => (await figure('membership_healthy')) === 2, 'both are healthy')
    return statuses
  }

  await t.test('another process answers its reads', async (t) => {
    for (const path of [
      '/v1/api-keys/config',
      '/maas-api/v1/subscriptions',
      '/health',
      '/docs',
      '/console',
    ]) {
      const statuses = await sendAndKill(path, 'GET')
      t.ok(
        statuses.every((status) => status === 200),
        path,
      )
    }
  })
  await t.test('nothing else is sent again', async (t) => {
    const retried = await figure('upstream_rq_retry')
    // A sign-in redeems a code, which is good for one use.
    for (const path of ['/v1/api-keys/search', '/console/sign-in']) {
      const statuses = await sendAndKill(path, 'POST')
      t.ok(statuses.includes(503), path)
    }
    t.equal(await figure('upstream_rq_retry'), retried)
  })
})

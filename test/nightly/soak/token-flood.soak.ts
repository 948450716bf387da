import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { base64url } from 'jose'
import root from 'tap'
import { envoyPath } from '../../support/envoy-binary.ts'
import { chatPath, defaultResources } from '../../support/gateway.ts'
import { startOidcIssuer } from '../../support/oidc-issuer.ts'
import { startReplicas } from '../../support/replicas.ts'
import { startReviewServer } from '../../support/review-server.ts'

const invented = 10_000
/** The number of connections of the attacker, from one address. */
const connections = 64
/** The limit of concurrent token reviews, and the time of the API server for one. */
const atOnce = 16
const reviewMs = 20

interface Asked {
  readonly path: string
  readonly token: string
  readonly chat?: boolean
}

/** Sends requests to the gateway from a local address. */
function clientAt(localAddress: string, port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  async function ask({ path, token, chat = false }: Asked): Promise<number> {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const method = chat ? 'POST' : 'GET'
    const options = { host: '127.0.0.1', port, path, method, localAddress, agent, headers }
    const asked = request(options)
    asked.end(chat ? '{"model":"sim","messages":[]}' : undefined)
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    await answer.resume().toArray()
    return answer.statusCode ?? 0
  }
  return { ask, close: () => agent.destroy() }
}

const skip = envoyPath() === undefined && 'no Envoy'

root.test('10,000 unknown tokens do not affect other callers', { skip }, async (t) => {
  const issuer = await startOidcIssuer(t)
  const cluster = await startReviewServer(t)
  const replicas = await startReplicas(t, {
    count: 1,
    tokens: ['listed-token,listed,1,team'],
    resources: defaultResources,
    env: {
      OIDC_ISSUER_URL: issuer.url,
      OIDC_CLIENT_ID: 'tollgate',
      KUBERNETES_TOKEN_REVIEW: 'true',
      KUBECONFIG: cluster.kubeconfig,
      TRUSTED_PROXIES: '127.0.0.1',
    },
  })
  const port = replicas.envoy.port
  const [flooder, honest] = [clientAt('127.0.0.2', port), clientAt('127.0.0.3', port)]
  t.teardown(flooder.close)
  t.teardown(honest.close)
  cluster.tokens.set('warm', { username: 'warm', groups: ['team'] })
  const minted = await fetch(`${replicas.url}/v1/api-keys`, {
    method: 'POST',
    headers: { authorization: 'Bearer listed-token' },
    body: JSON.stringify({ name: 'mine', subscription: 'plenty' }),
  })
  const { key } = (await minted.json()) as { key: string }
  t.equal(await honest.ask({ path: chatPath, token: key, chat: true }), 200)

  let [open, most, reviews] = [0, 0, 0]
  cluster.delay = async () => {
    open += 1
    reviews += 1
    most = Math.max(most, open)
    await sleep(reviewMs)
    open -= 1
  }
  /** Uses new tokens each time, so that there are valid callers of every kind, cached or not. */
  async function honestRound(
    round: number,
  ): Promise<readonly (readonly [string, number, number])[]> {
    cluster.tokens.set(`cluster-${round}`, { username: `c${round}`, groups: ['team'] })
    const signed = await issuer.sign({ sub: `ada-${round}`, groups: ['team'] })
    const list = '/v1/subscriptions'
    const asks: readonly (readonly [string, Asked])[] = [
      ['a key at inference', { path: chatPath, token: key, chat: true }],
      ['a token of the file', { path: list, token: 'listed-token' }],
      ['a new token of the provider', { path: list, token: signed }],
      ['a new token of the cluster', { path: list, token: `cluster-${round}` }],
    ]
    return Promise.all(
      asks.map(async ([title, asked]) => {
        const begin = performance.now()
        const status = await honest.ask(asked)
        return [title, status, performance.now() - begin] as const
      }),
    )
  }

  const quiet: (readonly [string, number, number])[] = []
  for (let round = 0; round < 20; round += 1) quiet.push(...(await honestRound(round)))
  const [known] = (await issuer.sign({ sub: 'ada' })).split('.')
  const forge = (i: number): string => {
    const signature = base64url.encode(randomBytes(64))
    if (i % 4 < 2) return base64url.encode(randomBytes(24))
    const claims = { iss: issuer.url, aud: 'tollgate', sub: 'root', exp: 4_000_000_000, i }
    const head = i % 4 === 2 ? known : base64url.encode(`{"alg":"ES256","kid":"k${i}"}`)
    return `${head}.${base64url.encode(JSON.stringify(claims))}.${signature}`
  }
  const before = { reviews, documents: issuer.asked.length }
  const startedAt = performance.now()
  let next = 0
  const statuses = new Map<number, number>()
  async function flood(): Promise<void> {
    for (let i = next++; i < invented; i = next++) {
      const status = await flooder.ask({
        path: i % 3 === 0 ? chatPath : '/v1/subscriptions',
        token: forge(i),
        chat: i % 3 === 0,
      })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  const flooding = Promise.all(Array.from({ length: connections }, flood))
  let isOver = false
  void flooding.finally(() => {
    isOver = true
  })
  const during: (readonly [string, number, number])[] = []
  for (let round = 100; !isOver; round += 1) during.push(...(await honestRound(round)))
  await flooding
  const seconds = (performance.now() - startedAt) / 1_000

  const calls = {
    reviews: reviews - before.reviews,
    documents: issuer.asked.length - before.documents,
  }
  t.comment(
    `${invented} invented tokens in ${seconds.toFixed(1)} s: ${calls.reviews} token reviews`,
  )
  t.comment(`at most ${most} of them at once, ${calls.documents} documents of the provider read`)
  t.comment(`answers: ${JSON.stringify(Object.fromEntries(statuses))}`)
  t.strictSame(
    [...statuses.keys()].filter((status) => status !== 401 && status !== 503),
    [],
  )
  t.equal(
    [...statuses.values()].reduce((sum, count) => sum + count),
    invented,
  )
  t.ok(most <= atOnce, `${most} reviews at once`)
  const honestReviews = during.length / 4
  t.ok(calls.reviews <= invented / 2 + honestReviews, 'at most one for each token')
  // Discovery and keys are read at most once in ten seconds, whatever the kid.
  t.ok(calls.documents <= 2 * (Math.ceil(seconds / 10) + 1), `${calls.documents} documents`)
  t.strictSame(
    during.filter(([, status]) => status !== 200),
    [],
    'every valid caller is served',
  )
  for (const [title] of quiet.slice(0, 4)) {
    const [calm, flooded] = [quiet, during].map((all) => worst(all, title))
    t.comment(`${title}: median, most ms: quiet ${calm}; flooded ${flooded}`)
  }
})

function worst(all: readonly (readonly [string, number, number])[], title: string): string {
  const times = all.flatMap(([of, , ms]) => (of === title ? [ms] : [])).sort((a, b) => a - b)
  const [median = 0, most = 0] = [times[Math.floor(times.length / 2)], times.at(-1)]
  return `${median.toFixed(1)}, ${most.toFixed(1)}`
}

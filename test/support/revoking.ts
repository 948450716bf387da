import type { Test } from 'tap'
import { subscription } from './documents.ts'
import { checkOf, checkResponse } from './envoy-messages.ts'
import { chatPath, models, subscriptions } from './gateway.ts'
import { connect } from './grpc-client.ts'
import { poll } from './poll.ts'
import { type Replicas, type ReplicasSettings, startReplicas } from './replicas.ts'
import type { LoadRequest } from './steady-load.ts'

/** The part of a revocation's response that lists the replicas that have it. */
export interface Propagation {
  readonly state: 'confirmed' | 'pending'
  readonly replicas: number
  readonly acknowledged: number
  readonly waitingFor?: readonly string[]
}

export interface Managed {
  readonly id: string
  readonly propagation: Propagation
}

/** Replicas, with operations on keys. */
export interface RevokingReplicas extends Replicas {
  /** By default under a Subscription without a limit that matters. */
  mint(subscription?: string): Promise<{ readonly key: string; readonly id: string }>
  /** A call to the API of one replica as an administrator; its response. */
  manage(replica: number, method: string, path: string, body?: object): Promise<Managed>
  /** DELETE through the API of one replica, by default the first. */
  revoke(id: string, replica?: number): Promise<Propagation>
  /** Waits until every replica accepts this key: one that lags on a slow machine returns 503. */
  use(key: string): Promise<void>
  /** The HTTP status of one Check at each replica, or worker, in order: 200 for an allow. */
  statuses(key: string): Promise<readonly number[]>
  /** One Check at one replica. */
  status(replica: number, key: string): Promise<number>
  /** A chat call with this key through Envoy. */
  chat(key: string): LoadRequest
}

const checkPath = '/envoy.service.auth.v3.Authorization/Check'

const own = { name: 'own', of: 'requests', limit: 1, window: 'day' }

/**
 * Starts replicas with one user, `ann`, whose keys have practically no limits, except for one request a day of `once`.
 */
export async function startRevoking(
  t: Test,
  settings: Omit<ReplicasSettings, 'resources' | 'tokens'>,
): Promise<RevokingReplicas> {
  const replicas = await startReplicas(t, {
    ...settings,
    resources: (backendUrl) => [
      ...models(backendUrl),
      ...subscriptions({ plenty: 1e9 }),
      subscription('once', { groups: ['team'] }, { 'llm/sim': [[1e9, '1m']] }, { named: [own] }),
    ],
    tokens: ['token-ann,ann,1,team', 'token-admin,admin,2,tollgate-admins'],
  })
  const { all, url } = replicas
  const clients = all.flatMap(({ grpc }) => grpc.split(',').map((at) => connect(t, at)))
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  const first = `http://${all[0]?.api}`

  async function status(replica: number, key: string): Promise<number> {
    const message = checkOf(chatPath, { authorization: `Bearer ${key}` })
    const answer = checkResponse.decode((await clients[replica]?.ask(checkPath, message)) as Buffer)
    const { denied_response } = answer as { denied_response?: { status: { code: number } } }
    return denied_response?.status.code ?? 200
  }

  const statuses = (key: string) => Promise.all(clients.map((_, at) => status(at, key)))

  return {
    ...replicas,
    async use(key) {
      await poll(
        async () => (await statuses(key)).every((one) => one === 200),
        'all replicas know the key',
      )
    },
    async manage(replica, method, path, body) {
      const answer = await fetch(`http://${all[replica]?.api}/v1/admin/${path}`, {
        method,
        headers: { ...(body && headers), authorization: 'Bearer token-admin' },
        ...(body && { body: JSON.stringify(body) }),
      })
      if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`)
      return (await answer.json()) as Managed
    },
    async mint(subscription = 'plenty') {
      const body = JSON.stringify({ name: 'revoked', subscription })
      const answer = await fetch(`${first}/v1/api-keys`, { method: 'POST', headers, body })
      if (answer.status !== 201) throw new Error(`no key: ${answer.status} ${await answer.text()}`)
      return (await answer.json()) as { key: string; id: string }
    },
    async revoke(id, replica = 0) {
      const { authorization } = headers
      const answer = await fetch(`http://${all[replica]?.api}/v1/api-keys/${id}`, {
        method: 'DELETE',
        headers: { authorization },
      })
      const text = await answer.text()
      if (answer.status !== 200) throw new Error(`not revoked: ${answer.status} ${text}`)
      return (JSON.parse(text) as { propagation: Propagation }).propagation
    },
    statuses,
    status,
    chat: (key) => ({
      url: url + chatPath,
      headers: { ...headers, authorization: `Bearer ${key}` },
      body: '{"model":"sim","messages":[]}',
    }),
  }
}

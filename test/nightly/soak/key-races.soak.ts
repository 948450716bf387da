import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { envoyPath } from '../../support/envoy-binary.ts'
import { type Propagation, startRevoking } from '../../support/revoking.ts'
import { createDice } from '../fuzz/gateway/dice.ts'

const skip = envoyPath() === undefined && 'no Envoy'
/** RACE_SECONDS, RACE_SEED: how long, and which changes. */
const seconds = Number(process.env.RACE_SECONDS ?? 120)
const seed = Number(process.env.RACE_SEED ?? 20_261_123)

/** A secret, and until when it worked: the latest time at which an accepted request was sent. */
interface Secret {
  readonly key: string
  readonly knownAt: number
  acceptedAt: number
}

/** A change that every process has confirmed. */
interface Confirmed {
  readonly name: string
  readonly sentAt: number
  readonly respondedAt: number
  /** How many of the secrets that were known when it was sent may still work afterwards. */
  readonly spared: number
}

t.test('no secret works after a confirmed change that ends it', { skip }, async (t) => {
  const pair = await startRevoking(t, { count: 2 })
  const dice = createDice(seed)
  const endsAt = performance.now() + seconds * 1_000
  const counts = { rounds: 0, confirmed: 0, kills: 0, repeats: 0 }
  const token = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }

  async function ask(replica: number, method: string, path: string, body?: object, headers = {}) {
    const answer = await fetch(`http://${pair.all[replica]?.api}${path}`, {
      method,
      headers: { ...token, ...headers },
      ...(body && { body: JSON.stringify(body) }),
    }).catch(() => undefined)
    const text = await answer?.text().catch(() => undefined)
    return { status: answer?.status ?? 0, body: text ? JSON.parse(text) : {} }
  }

  async function round(): Promise<void> {
    const { id, key } = await pair.mint()
    const secrets: Secret[] = []
    const confirmed: Confirmed[] = []
    let isOver = false
    const know = (key: string) =>
      secrets.push({ key, knownAt: performance.now(), acceptedAt: Number.NEGATIVE_INFINITY })
    know(key)

    const probing = [0, 1].map(async (replica) => {
      while (!isOver) {
        await Promise.all(
          secrets.map(async (secret) => {
            const sentAt = performance.now()
            const headers = { authorization: `Bearer ${secret.key}` }
            const { status } = await ask(replica, 'GET', '/v1/subscriptions', undefined, headers)
            if (status === 200) secret.acceptedAt = Math.max(secret.acceptedAt, sentAt)
          }),
        )
        await delay(2)
      }
    })

    async function change(name: string, replica: number): Promise<void> {
      await delay(dice.below(60))
      const sentAt = performance.now()
      const path = `/v1/api-keys/${id}`
      if (name === 'patch') return void (await ask(replica, 'PATCH', path, { labels: { a: 'b' } }))
      const overlap = name === 'overlap' ? '1h' : 0
      const repeated = name.startsWith('repeat') ? { 'idempotency-key': `${id}-${name}` } : {}
      const { status, body } =
        name === 'delete'
          ? await ask(replica, 'DELETE', path)
          : await ask(replica, 'POST', `${path}/rotate`, { overlap }, repeated)
      if (status !== 200) return
      if (name.startsWith('repeat')) counts.repeats += 1
      if (body.key) know(body.key)
      if ((body.propagation as Propagation).state !== 'confirmed') return
      const spared = name === 'overlap' ? 1 : 0
      confirmed.push({ name, sentAt, respondedAt: performance.now(), spared })
    }

    const names = ['rotate', 'overlap', 'patch', 'repeat-1', 'repeat-1', 'repeat-2', 'repeat-2']
    const changes = Array.from({ length: 8 }, () =>
      change(dice.chance(6) ? 'delete' : dice.pick(names), dice.below(2)),
    )
    const second = pair.all[1]
    if (dice.chance(20)) {
      counts.kills += 1
      await delay(dice.below(60))
      await second?.end('SIGKILL')
      await second?.start()
    }
    await Promise.all(changes)
    await change('rotate', 0)
    await delay(100)
    isOver = true
    await Promise.all(probing)

    for (const { name, sentAt, respondedAt, spared } of confirmed) {
      counts.confirmed += 1
      const older = secrets.filter(({ knownAt }) => knownAt < sentAt)
      // Of a deleted key no secret works, whenever it was made known.
      const ended = name === 'delete' ? secrets : older
      const working = ended.filter(({ acceptedAt }) => acceptedAt > respondedAt)
      if (working.length <= spared) continue
      const late = working.map(({ acceptedAt }) => Math.round(acceptedAt - respondedAt))
      t.fail(`round ${counts.rounds}: ${name} was confirmed, and a secret worked ${late} ms later`)
    }
  }

  while (performance.now() < endsAt) {
    counts.rounds += 1
    await round()
  }
  t.comment(`seed ${seed}: ${JSON.stringify(counts)}`)
  t.ok(counts.confirmed > 0 && counts.repeats > 0)
})

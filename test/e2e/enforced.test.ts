import root from 'tap'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Condition, startEnforcing } from '../support/kubernetes/enforcing.ts'
import { poll } from '../support/poll.ts'
import { startLoad, tally } from '../support/steady-load.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const team = { groups: ['team'] }
/**
 * The time until all statuses show that a process is silent. Three objects of each model change, and
 * twenty are written per second.
 */
const silentWithinMs = 60_000

root.test('Enforced is True only while every process is known to enforce', { skip }, async (t) => {
  const enforcing = await startEnforcing(t, 100)
  const { world, proxy, database, model, all } = enforcing
  const { condition, enforced, isEnforced: isTrue, mint, chat, chatOf } = enforcing

  await t.test('two models on one route are enforced separately', async (t) => {
    for (const name of ['one', 'two']) await world.apply(modelRef(name, { backendUrl: model.url }))
    await world.apply(accessPolicy('open', ['llm/one', 'llm/two'], team))
    const limits = { 'llm/one': [[10, '1h']], 'llm/two': [[1_000_000, '1h']] } as const
    await world.apply(subscription('both', team, limits))
    for (const name of ['one', 'two']) {
      await isTrue(name)
      await isTrue(name, 'trlp')
      await poll(
        async () => (await condition('modelrefs', name, 'Programmed'))?.status === 'True',
        `the cluster of ${name}`,
      )
    }
    // Now only the limit refuses.
    const key = await mint('both')
    t.equal(await chat(key, 'one'), 200)
    for (let i = 0; i < 20; i += 1) t.equal(await chat(key, 'two'), 200)
    await poll(
      async () => (await chat(key, 'one')) === 429,
      'the limit of the first model is reached',
    )
    t.equal(await chat(key, 'two'), 200, 'the other model has its own limit')
    const own = 'models-as-a-service'
    await poll(
      async () => (await condition('accesspolicies', 'open', 'Ready', own))?.status === 'True',
      'the AccessPolicy is Ready',
    )
  })

  await t.test('the last of ten policies still admits while the others are removed', async (t) => {
    const names = Array.from({ length: 10 }, (_, i) => `p${i}`)
    for (const name of names) await world.apply(accessPolicy(name, ['llm/two'], team))
    await world.remove(accessPolicy('open', [], {}))
    await isTrue('two')
    const key = await mint('both')
    const load = startLoad(50, () => chatOf(key, 'two'))
    for (const name of names.slice(1)) {
      await world.remove(accessPolicy(name, [], {}))
      await new Promise((settle) => setTimeout(settle, 100))
    }
    await poll(async () => {
      const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/modelauthpolicies/maas-auth-two'
      const { spec } = (await world.client.send({ path })) as {
        spec: { accessPolicyCount: number }
      }
      return spec.accessPolicyCount === 1
    }, 'one policy is left')
    await isTrue('two')
    const shots = await load.stop()
    t.strictSame(tally(shots), { 200: shots.length })
  })

  await t.test('names a process that is stopped', async (t) => {
    const [, second] = all
    second?.signal('SIGSTOP')
    await world.apply(accessPolicy('later', ['llm/two'], { users: ['bob'] }))
    const lacking = await poll(async () => {
      const found = await enforced('two')
      return found?.message === 'not in force yet in replica-2' ? found : undefined
    }, 'Enforced is False')
    t.match(lacking, { status: 'False', reason: 'NotEnforced' })
    t.match(await enforced('two', 'trlp'), { status: 'True' })
    const sql = openPool({ url: database, connections: 1 })
    t.teardown(() => sql.end())
    await sql`update tollgate_reports set reported_at = reported_at - interval '31 seconds'
      where replica in (select id from tollgate_replicas where name = 'replica-2')`
    await poll(
      async () => {
        const found = await enforced('two', 'trlp')
        return found?.status === 'Unknown' && found.message.endsWith('by replica-2')
      },
      'Enforced is Unknown',
      silentWithinMs,
    )
    second?.signal('SIGCONT')
    await isTrue('two')
    await isTrue('two', 'trlp')
  })

  await t.test('without the database no policy is shown as enforced', async (t) => {
    proxy.refuse()
    await world.apply(accessPolicy('later', ['llm/two'], { users: ['eve'] }))
    const seen = new Set<string>()
    await poll(
      async () => {
        const found = await enforced('one', 'trlp')
        seen.add((await enforced('two'))?.status ?? '')
        return found?.status === 'Unknown'
      },
      'unchanged policies are Unknown',
      silentWithinMs,
    )
    t.notOk(seen.has('True') && (await enforced('two'))?.status === 'True')
    proxy.heal()
    await isTrue('one', 'trlp')
    await isTrue('two')
  })

  await t.test('each process shows the same conditions', async (t) => {
    for (const { internal } of all) {
      const answer = await fetch(`http://${internal}/internal/v1/resources`)
      const { data } = (await answer.json()) as {
        data: readonly { kind: string; name: string; conditions: readonly Condition[] }[]
      }
      const found = data.find(({ name }) => name === 'maas-auth-two')
      t.match(found, {
        kind: 'ModelAuthPolicy',
        conditions: [
          { type: 'Accepted', status: 'True' },
          { type: 'Enforced', status: 'True' },
        ],
      })
    }
  })
})

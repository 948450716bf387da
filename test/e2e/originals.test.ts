import root from 'tap'
import { accessPolicy, modelRef, original, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { startEnforcing } from '../support/kubernetes/enforcing.ts'
import { poll } from '../support/poll.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const group = 'maas.opendatahub.io'
const team = { groups: ['team'] }

root.test("reads, enforces and finalizes the original's resources", { skip }, async (t) => {
  const groups = { STATUS_GROUPS: `tollgate.dev,${group}` }
  const { world, model, isEnforced, mint, chat } = await startEnforcing(t, 0, groups)
  const one = original(modelRef('one', { backendUrl: model.url }), [`${group}/model-cleanup`])
  const open = original(accessPolicy('open', ['llm/one'], team), [`${group}/authpolicy-cleanup`])
  const paid = original(subscription('paid', team, { 'llm/one': [[1_000_000, '1h']] }), [
    `${group}/subscription-cleanup`,
  ])
  const read = (namespace: string, name: string) => {
    const path = `/apis/${group}/v1alpha1/namespaces/${namespace}/${name}`
    return world.client.send({ path }).then(
      ({ status }) => (status as { phase?: string } | undefined)?.phase ?? 'none yet',
      () => 'gone',
    )
  }
  const policy = () => read('models-as-a-service', 'maasauthpolicies/open')
  for (const each of [one, open, paid]) await world.apply(each)
  await isEnforced('one')
  await isEnforced('one', 'trlp')
  const key = await mint('paid')
  t.equal(await chat(key, 'one'), 200)
  await poll(async () => (await policy()) === 'Active', 'its own status is Active')

  await world.remove(open)
  await poll(async () => (await policy()) === 'gone', 'the policy is deleted')
  await poll(async () => (await chat(key, 'one')) === 403, 'access has ended')
  await world.remove(one)
  await world.remove(paid)
  await poll(
    async () => (await read('llm', 'maasmodelrefs/one')) === 'gone',
    'the model is deleted',
  )
  await poll(
    async () => (await read('models-as-a-service', 'maassubscriptions/paid')) === 'gone',
    'the Subscription is deleted',
  )
})
